//! Documents of both sides, of which some are replaced or withdrawn.

use reqwest::{Method, multipart::Form};

use crate::harness::{Api, created, deed, file, problem};

/// Replaces the only document of an order, returns two signed ones, and withdraws the first of each list.
pub async fn work_on_documents(client: &Api, service: &Api, order: &str) {
    let files = |names: &[&str]| {
        names.iter().fold(Form::new(), |form, name| form.part("documents", file(name, deed())))
    };
    for (side, list, form) in [
        (client, "documents", files(&["redraw.pdf"]).text("replaces", "0")),
        (service, "signed-documents", files(&["wrong-file.pdf", "signed.pdf"])),
    ] {
        let added = side.post(&format!("{order}/{list}")).multipart(form).send().await;
        created(added.unwrap()).await;
        let withdrawn = side.request(Method::DELETE, &format!("{order}/{list}/0")).send().await;
        assert_eq!(withdrawn.unwrap().status(), 204);
    }
}

/// Asserts that such an order has the two documents that are left, and that the others stay withdrawn.
pub async fn assert_documents_are_left(client: &Api, order: &str) {
    for list in ["documents", "signed-documents"] {
        let path = |position| format!("{order}/{list}/{position}");
        problem(client.get(&path(0)).await, 410, "withdrawn").await;
        assert!(client.get(&path(1)).await.bytes().await.unwrap() == deed(), "{list}");
    }
    let read = client.read(order).await;
    assert_eq!(
        (&read["documents_uploaded"], &read["signed_documents_uploaded"]),
        (&1.into(), &1.into())
    );
    assert_eq!(
        (&read["documents"][0]["replaced_by"], &read["documents"][1]["replaces"]),
        (&1.into(), &0.into())
    );
}
