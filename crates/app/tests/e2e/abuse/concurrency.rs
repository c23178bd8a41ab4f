//! Many concurrent requests.

use futures_util::future::join_all;

use crate::{
    harness::{TestApp, form_with_deed, order},
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    one_of_fifty_duplicate_orders_is_created,
    fifty_different_file_numbers_are_all_created,
}

/// Creates 50 orders at once, half of them with a document. Returns the sorted statuses.
async fn create_fifty(app: &TestApp, file_number: impl Fn(usize) -> String) -> Vec<u16> {
    let responses = join_all((0..50).map(|at| {
        let number = file_number(at);
        async move {
            if at % 2 == 0 {
                app.create(&order(&number)).await
            } else {
                app.create_with(form_with_deed(&number)).await
            }
        }
    }));
    let mut statuses: Vec<_> =
        responses.await.iter().map(|response| response.status().as_u16()).collect();
    statuses.sort_unstable();
    statuses
}

async fn one_of_fifty_duplicate_orders_is_created(kind: Kind) {
    let app = kind.app().await;
    let statuses = create_fifty(&app, |_| "F-1".to_owned()).await;
    assert_eq!(statuses[0], 201);
    assert!(statuses[1..].iter().all(|status| *status == 409), "{statuses:?}");
    assert_eq!((app.rows("orders"), app.rows("uploads")), (1, 0));
    assert_eq!(app.documents().len(), app.rows("documents"));
    app.assert_spool_empty();
}

async fn fifty_different_file_numbers_are_all_created(kind: Kind) {
    let app = kind.app().await;
    assert_eq!(create_fifty(&app, |at| format!("F-{at}")).await, [201; 50]);
    assert_eq!((app.rows("orders"), app.rows("documents"), app.rows("uploads")), (50, 25, 0));
    assert_eq!(app.documents().len(), 25);
}
