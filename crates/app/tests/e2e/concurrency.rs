//! Many clients at once.

use futures_util::future::join_all;

use crate::harness::{TestApp, form_with_deed, order};

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_orders_with_one_file_number_one_is_created() {
    let app = TestApp::start().await;
    let attempts = (0..50).map(|at| {
        let app = &app;
        async move {
            let response = if at % 2 == 0 {
                app.create(&order("F-1")).await
            } else {
                app.create_with(form_with_deed("F-1")).await
            };
            response.status().as_u16()
        }
    });
    let mut statuses = join_all(attempts).await;
    statuses.sort_unstable();
    assert_eq!(statuses[0], 201);
    assert!(statuses[1..].iter().all(|status| *status == 409), "{statuses:?}");
    assert_eq!((app.rows("orders"), app.rows("uploads")), (1, 0));
    assert_eq!(i64::try_from(app.documents().len()).unwrap(), app.rows("documents"));
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn different_file_numbers_do_not_stand_in_each_others_way() {
    let app = TestApp::start().await;
    let attempts = (0..50).map(|at| {
        let app = &app;
        async move {
            let number = format!("F-{at}");
            let response = if at % 2 == 0 {
                app.create(&order(&number)).await
            } else {
                app.create_with(form_with_deed(&number)).await
            };
            response.status().as_u16()
        }
    });
    assert!(join_all(attempts).await.into_iter().all(|status| status == 201));
    assert_eq!((app.rows("orders"), app.rows("documents"), app.rows("uploads")), (50, 25, 0));
    assert_eq!(app.documents().len(), 25);
}
