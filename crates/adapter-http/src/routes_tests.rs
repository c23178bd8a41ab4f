//! Which requests leave an access, and which.

use std::collections::BTreeMap;

use actix_web::{http::Method, test::TestRequest};
use contract_tests::samples::{minimal_request, new_order, stored};
use domain::{
    access::{Access, AccessActor, AccessFacts, AccessKind},
    api_key::{ApiKeyId, ClientId, NewApiKey, Party, Rate, Scope},
    order::{OrderId, Refusal, SigningServiceId, feed::FeedPage},
    ports::{ListedOrder, MaybeErased, Page},
};
use serde_json::json;

use crate::{
    admission::limits::Share,
    test_support::{NOW, Ports, TestApi, no_news},
};

/// Returns an API, and all permits of the client for answers, downloads and walks.
fn without_permits(ports: Ports) -> (TestApi, [Share; 3]) {
    let api = ports.api();
    let held = [&api.api.answers, &api.api.downloads, &api.api.walks].map(|limit| {
        let mut share = limit.of(Party::Client(ClientId(1)));
        assert!(share.try_take(1));
        share
    });
    (api, held)
}

#[actix_web::test]
async fn each_read_waits_for_a_permit_of_its_client() {
    tokio::time::pause();
    // The mocks have no expectations: nothing is read.
    let (api, held) = without_permits(Ports::new());
    let reads = crate::routes::operations()
        .into_iter()
        .filter(|(_, routes)| routes.iter().flatten().any(|(method, _)| *method == Method::GET))
        // A client's key gets no notaries.
        .filter(|(path, _)| *path != crate::list_notaries::PATH)
        // Of these, a key reads none; the ways to sign in read nothing.
        .filter(|(path, _)| {
            !["/api/session/ways", "/api/people", "/api/keys"].iter().any(|it| path.starts_with(it))
        });
    let paths: Vec<_> = reads
        .map(|(path, _)| {
            let number = |path: String, name: &str| path.replace(&format!("{{{name}}}"), "1");
            ["order_id", "position", "webhook_id"].into_iter().fold(path.to_owned(), number)
        })
        .chain(["/api/order?search=jane".to_owned()])
        .collect();
    assert!(paths.len() > 13 && !paths.iter().any(|path| path.contains('{')), "{paths:?}");
    for path in paths {
        let answer = api.send(TestApi::get(&path)).await;
        answer.problem(503, "unavailable");
        assert_eq!(answer.headers.get("retry-after").unwrap(), "5", "{path}");
    }
    drop(held);
}

/// Its answer may be long, and its client may read it slowly.
#[actix_web::test]
async fn each_change_with_a_record_in_its_answer_waits_for_a_permit_of_its_client() {
    tokio::time::pause();
    let order = minimal_request();
    for (method, path, body) in [
        (Method::PUT, "/api/order?file_number=F-1", order.clone()),
        (Method::PUT, "/api/order/7", order),
        (Method::PATCH, "/api/order/7", json!({ "order_status": "ASSIGNED" })),
        (Method::POST, "/api/order/7/cancel", json!({})),
        (Method::POST, "/api/order/7/notes", json!({ "text": "Gate code 4711" })),
    ] {
        // The mocks have no expectations: nothing is changed.
        let ports = Ports::with_key(|key| key.scopes = Scope::ALL.into_iter().collect());
        let (api, held) = without_permits(ports);
        let request = TestApi::post(path).method(method.clone()).set_json(body);
        let answer = api.send(request).await;
        answer.problem(503, "unavailable");
        assert_eq!(answer.headers.get("retry-after").unwrap(), "5", "{method} {path}");
        drop(held);
    }
}

#[actix_web::test]
async fn walk_holds_up_no_quick_read() {
    tokio::time::pause();
    let (api, [answers, downloads, walk]) = without_permits(without_orders(|_| {}));
    drop((answers, downloads));
    for (path, status) in [
        ("/api/order?search=jane", 503),
        ("/api/order?order_status=NEW", 503),
        ("/api/order/7/accesses", 503),
        ("/api/order", 200),
        ("/api/order?file_number=F-1", 200),
        ("/api/order/7", 404),
    ] {
        assert_eq!(api.send(TestApi::get(path)).await.status, status, "{path}");
    }
    drop(walk);
    assert_eq!(api.send(TestApi::get("/api/order?search=jane")).await.status, 200);
}

#[actix_web::test]
async fn answer_keeps_its_permit_until_it_is_sent() {
    let api = without_orders(|_| {}).api();
    let answer = api.begin(TestApi::get("/api/order")).await;
    assert_eq!((answer.status().as_u16(), api.api.answers.used()), (200, 1));
    drop(answer);
    assert_eq!(api.api.answers.used(), 0);
}

/// Returns the kinds and outcomes of accesses.
fn outcomes(accesses: &[Access]) -> Vec<(AccessKind, &str)> {
    accesses.iter().map(|access| (access.facts.kind, &*access.outcome)).collect()
}

/// Returns mocks in which there is no order.
fn without_orders(change: fn(&mut NewApiKey)) -> Ports {
    let mut ports = Ports::with_key(change);
    ports.reader.expect_order().returning(|_, _| Ok(None));
    ports.reader.expect_listed().returning(|_, _| Ok(None));
    ports.reader.expect_with_documents().returning(|_, _| Ok(None));
    ports.reader.expect_notes().returning(|_, _, _| Ok(None));
    ports.reader.expect_history().returning(|_, _, _| Ok(None));
    ports.reader.expect_document().returning(|_, _| Ok(None));
    ports.reader.expect_newest().returning(|_, _| Ok(None));
    ports.reader.expect_page().returning(|_, _| {
        Ok(Some(Page { items: vec![], has_older: false, has_newer: false, stopped_at: None }))
    });
    ports
        .feed
        .expect_page()
        .returning(|_, next, _| Ok(Some(FeedPage { entries: vec![], next, has_more: false })));
    ports.accesses.expect_of_order().returning(|_, _, _, _| Ok(None));
    ports.orders.expect_update().returning(|_| Ok(None));
    ports.orders.expect_change().returning(|_| Err(Refusal::NoSuchOrder.into()));
    ports
}

/// Returns each operation on orders: its method, its path below `/api/order` and the kind of its access.
fn operations() -> [(Method, &'static str, AccessKind); 21] {
    use AccessKind as Kind;
    [
        (Method::GET, "", Kind::List),
        (Method::GET, "/changes", Kind::List),
        (Method::PUT, "?file_number=F-1", Kind::Change),
        (Method::GET, "/7", Kind::Read),
        (Method::HEAD, "/7", Kind::Read),
        (Method::PUT, "/7", Kind::Change),
        (Method::PATCH, "/7", Kind::Update),
        (Method::GET, "/7/history", Kind::ReadHistory),
        (Method::GET, "/7/accesses", Kind::ReadAccesses),
        (Method::POST, "/7/cancel", Kind::Cancel),
        (Method::GET, "/7/notes", Kind::ReadNotes),
        (Method::POST, "/7/notes", Kind::AddNote),
        (Method::GET, "/7/documents", Kind::ListDocuments),
        (Method::POST, "/7/documents", Kind::AddDocuments),
        (Method::GET, "/7/documents.zip", Kind::DownloadAll),
        (Method::GET, "/7/documents/2", Kind::Download),
        (Method::DELETE, "/7/documents/2", Kind::Withdraw),
        (Method::GET, "/7/signed-documents", Kind::ListSignedDocuments),
        (Method::GET, "/7/signed-documents.zip", Kind::DownloadAllSigned),
        (Method::GET, "/7/signed-documents/2", Kind::DownloadSigned),
        (Method::DELETE, "/7/signed-documents/2", Kind::WithdrawSigned),
    ]
}

#[actix_web::test]
async fn each_operation_on_orders_leaves_one_access() {
    for (method, path, kind) in operations() {
        let api = without_orders(|key| key.scopes = Scope::ALL.into_iter().collect()).api();
        let request = TestApi::get(&format!("/api/order{path}")).method(method.clone());
        let answer = api.send(request.set_json(json!({}))).await;
        let accesses = api.accesses().await;
        let [access] = &*accesses else { panic!("{method} {path}: {accesses:?}") };
        assert_eq!(access.facts.kind, kind, "{method} {path}");
        let expected = if method == Method::HEAD {
            "not_found"
        } else {
            answer.body["code"].as_str().unwrap_or("ok")
        };
        assert_eq!(access.outcome, expected, "{method} {path}");
        let order = path.starts_with("/7").then_some(OrderId(7));
        let position = path.ends_with("/2").then_some(2);
        assert_eq!((access.facts.order, access.facts.position), (order, position), "{path}");
    }
}

#[actix_web::test]
async fn refused_requests_with_a_valid_key_leave_an_access() {
    // Without the scope.
    let api = Ports::with_key(|key| key.scopes = [].into_iter().collect()).api();
    for (method, path, kind) in operations() {
        let request = TestApi::get(&format!("/api/order{path}")).method(method);
        api.send(request.set_json(json!({}))).await;
        assert_eq!(outcomes(&api.accesses().await), [(kind, "forbidden")]);
    }
    // A request over the rate leaves none.
    let ports = Ports { rate: Rate { per_second: 1, burst: 1 }, ..without_orders(|_| {}) };
    let api = ports.api();
    for _ in 0..2 {
        api.send(TestApi::get("/api/order")).await;
    }
    assert_eq!(outcomes(&api.accesses().await), [(AccessKind::List, "ok")]);
    // With a wrong parameter, and a text that is no identifier.
    let api = without_orders(|_| {}).api();
    api.send(TestApi::get("/api/order?limit=0")).await;
    api.send(TestApi::get("/api/order/x")).await;
    let accesses = api.accesses().await;
    let expected = [(AccessKind::List, "validation_failed"), (AccessKind::Read, "not_found")];
    assert_eq!(outcomes(&accesses), expected);
    assert_eq!(accesses[1].facts.order, None);
}

#[actix_web::test]
async fn access_has_the_key_the_client_and_the_request() {
    let ports = without_orders(|key| key.for_service = Some(SigningServiceId(42)));
    let api = Ports { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..ports }.api();
    let request = TestApi::get("/api/order/7/documents/2")
        .peer_addr("10.0.0.1:4711".parse().unwrap())
        .insert_header(("x-forwarded-for", "203.0.113.9"))
        .insert_header(("x-request-id", "id-of-the-proxy"));
    api.send(request).await;
    let expected = AccessFacts {
        kind: AccessKind::Download,
        order: Some(OrderId(7)),
        orders: None,
        position: Some(2),
        subject: None,
        actor: AccessActor::Key { id: ApiKeyId(1), party: Party::Service(SigningServiceId(42)) },
        address: "203.0.113.9".parse().ok(),
        request_id: Some("id-of-the-proxy".to_owned()),
    };
    assert_eq!(api.accesses().await[0].facts, expected);
}

#[actix_web::test]
async fn list_has_the_number_of_its_orders() {
    let mut ports = Ports::new();
    ports.reader.expect_page().returning(|_, _| {
        let order = stored(OrderId(1), &new_order("F-1", NOW));
        let order = ListedOrder { news: Some(no_news()), ..order.into() };
        let items = vec![order.clone(), order];
        Ok(Some(Page { items, has_older: false, has_newer: false, stopped_at: None }))
    });
    let api = ports.api();
    api.send(TestApi::get("/api/order")).await;
    let accesses = api.accesses().await;
    assert_eq!((accesses[0].facts.orders, accesses[0].facts.order), (Some(2), None));
}

#[actix_web::test]
async fn read_of_what_the_client_has_is_not_modified() {
    let mut ports = Ports::new();
    ports
        .reader
        .expect_order()
        .once()
        .returning(|_, id| Ok(Some(MaybeErased::Whole(stored(id, &new_order("F-1", NOW))))));
    // A validator needs neither history nor notes.
    ports
        .reader
        .expect_listed()
        .once()
        .returning(|_, id| Ok(Some(MaybeErased::Whole(stored(id, &new_order("F-1", NOW)).into()))));
    let api = ports.api();
    let tag = api.send(TestApi::get("/api/order/7")).await.header("etag").to_owned();
    let again = TestApi::get("/api/order/7").insert_header(("if-none-match", tag));
    assert_eq!(api.send(again).await.status, 304);
    let expected = [(AccessKind::Read, "ok"), (AccessKind::Read, "not_modified")];
    assert_eq!(outcomes(&api.accesses().await), expected);
}

#[actix_web::test]
async fn panic_leaves_an_access() {
    let mut ports = Ports::new();
    ports.reader.expect_order().returning(|_, _| panic!("a bug"));
    let api = ports.api();
    api.send(TestApi::get("/api/order/7")).await.problem(500, "internal");
    assert_eq!(outcomes(&api.accesses().await), [(AccessKind::Read, "internal")]);
}

#[actix_web::test]
async fn change_is_stored_with_its_access() {
    let mut ports = Ports::with_key(|key| {
        key.for_service = Some(SigningServiceId(42));
        key.scopes = Scope::OF_SERVICES.into_iter().collect();
    });
    ports.orders.expect_update().once().returning(|update| {
        let access = update.access.as_ref().unwrap();
        assert_eq!((access.id.number, access.facts.kind), (1, AccessKind::Update));
        Ok(Some(stored(update.id, &new_order("F-1", NOW)).into()))
    });
    let api = ports.api();
    let request = TestApi::post("/api/order/7").method(Method::PATCH);
    let answer = api.send(request.set_json(json!({ "order_status": "ASSIGNED" }))).await;
    assert_eq!(answer.status, 200);
    let accesses = api.accesses().await;
    assert_eq!(outcomes(&accesses), [(AccessKind::Update, "ok")]);
    assert_eq!(accesses[0].id.number, 1);
}

#[actix_web::test]
async fn other_requests_leave_no_access() {
    let mut ports = Ports::new();
    ports.keys.expect_first_of().returning(|_| Ok(None));
    let api = ports.api();
    for path in ["/api/key", "/none", "/openapi.json", "/console"] {
        api.send(TestApi::get(path)).await;
    }
    for (method, path) in [(Method::POST, "/api/order/create"), (Method::DELETE, "/api/order/7")] {
        api.send(TestApi::post(path).method(method).set_json(json!({}))).await;
    }
    // Without a valid key there is no actor.
    for request in [
        TestRequest::get().uri("/api/order/7"),
        TestRequest::get().uri("/api/order/7").insert_header(("authorization", "Bearer nok_x")),
    ] {
        api.send(request).await.problem(401, "unauthorized");
    }
    assert_eq!(api.accesses().await, []);
}

#[actix_web::test]
async fn nothing_is_done_that_cannot_be_recorded() {
    // Calls without an expectation fail.
    let api = Ports::without_key().api();
    api.fill_recorder();
    for (method, path, _) in operations() {
        let request = TestApi::get(&format!("/api/order{path}")).method(method.clone());
        let answer = api.send(request.set_json(json!({}))).await;
        assert_eq!(answer.status, 503, "{method} {path}");
        assert_eq!(answer.header("retry-after"), "5");
    }
    // Keys of what leaves no access.
    let mut ports = Ports::new();
    ports.keys.expect_first_of().returning(|_| Ok(None));
    ports.rejected.expect_counts().returning(|_, _| Ok(BTreeMap::new()));
    let api = ports.api();
    api.fill_recorder();
    assert_eq!(api.send(TestApi::get("/api/key")).await.status, 200);
}
