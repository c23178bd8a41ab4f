//! Creates orders with documents.

use crate::{
    harness::raw::{exchange, statuses},
    harness::{
        CREATE_WITH_DOCUMENTS, FORM, TestApp, created, deed, file, form, order, problem,
        raw_order_parts, with_documents,
    },
    wiring::{Kind, on_both_wirings},
};

on_both_wirings! {
    documents_are_whole_at_any_length_and_do_not_take_bytes_of_the_next_request,
    one_to_twenty_documents_are_accepted,
}

/// The service receives documents in blocks of this size.
const BLOCK: usize = 1024 * 1024;

async fn documents_are_whole_at_any_length_and_do_not_take_bytes_of_the_next_request(kind: Kind) {
    let app = kind.app().await;
    let (mut requests, mut sent) = (Vec::new(), Vec::new());
    for (number, lengths) in [
        [BLOCK - 1, BLOCK, BLOCK + 1, 20],
        [2 * BLOCK - 9, 3 * BLOCK + 4_095, 300_000, 5 * BLOCK],
        [BLOCK - 8, BLOCK - 7, BLOCK - 6, BLOCK - 5],
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = raw_order_parts(&format!("F-{number}")).into_bytes();
        for length in lengths {
            // Many lines look like the beginning of a delimiter.
            let content = b"%PDF-1.7\n".iter().chain(b"\r\n--\r\n-".iter().cycle());
            let content: Vec<u8> = content.copied().take(length).collect();
            let head = b"--b\r\nContent-Disposition: form-data; name=\"documents\"; \
                filename=\"deed.pdf\"\r\n\r\n";
            body.extend([&head[..], &content, b"\r\n"].concat());
            sent.push(content);
        }
        body.extend_from_slice(b"--b--\r\n");
        let mut headers = format!("{FORM}Content-Length: {}\r\n", body.len());
        if number == 2 {
            headers += "Connection: close\r\n";
        }
        requests.extend(app.head(CREATE_WITH_DOCUMENTS, &headers).into_bytes());
        requests.extend(body);
    }
    // actix does not read the rest of a large body whose client has ended its side.
    let answers = exchange(app.address, requests, false).await;
    assert_eq!(statuses(&answers), [201, 201, 201]);
    // One after the other, on a connection that stays open.
    for length in [3 * BLOCK + 5, 2_500_000] {
        let mut content: Vec<u8> = (0..=250).cycle().take(length).collect();
        content[..9].copy_from_slice(b"%PDF-1.7\n");
        let form = form(&order(&format!("F-{length}")));
        created(app.create_with(with_documents(form, 1, &content)).await).await;
        sent.push(content);
    }
    let mut stored = app.documents();
    stored.sort();
    sent.sort();
    assert!(stored == sent);
    app.assert_spool_empty();
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_served_at_no_path() {
    let app = TestApp::start().await;
    created(app.order_with_deed("F-1").await).await;
    let key = app.wiring.objects().into_keys().next().unwrap();
    for path in [
        key.clone(),
        format!("documents/{key}"),
        format!("data/documents/{key}"),
        format!("orders/{key}"),
        "deed.pdf".to_owned(),
    ] {
        for path in [
            format!("/{path}"),
            format!("/docs/{path}"),
            format!("/docs/../{path}"),
            format!("/api/order/1/{path}"),
        ] {
            problem(app.get(&path).await, 404, "not_found").await;
            assert_eq!(app.ops(&path).await.0, 404, "{path}");
        }
    }
}

async fn one_to_twenty_documents_are_accepted(kind: Kind) {
    let app = kind.app().await;
    problem(app.create_with(form(&order("F-0"))).await, 400, "no_documents").await;
    let with = |count: usize| with_documents(form(&order("F-1")), count, &deed());
    problem(app.create_with(with(21)).await, 400, "too_many_documents").await;
    app.assert_untouched();
    let with_empty_input = with(20).part("documents", file("", ""));
    assert_eq!(created(app.create_with(with_empty_input).await).await["documents_uploaded"], 20);
    assert_eq!(app.documents().len(), 20);
}
