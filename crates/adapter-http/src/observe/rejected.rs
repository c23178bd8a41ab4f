//! Counts rejected requests to create or change orders, for the contacts of their keys.

use actix_web::{HttpMessage as _, HttpRequest, http::Method};

use crate::{
    orders::path::ORDERS,
    request::{id::RequestId, notes::Notes},
    respond::problem::{Faults, ProblemCode},
    state::Api,
};

/// Counts a request to create or change an order that is rejected for what it says. A request without a valid key has
/// nobody to tell.
pub(super) fn count(api: &Api, request: &HttpRequest) {
    let changes = ![Method::GET, Method::HEAD].contains(request.method());
    let path = request.path().strip_prefix(&*api.base_path);
    if !changes || !path.is_some_and(|path| path.starts_with(ORDERS)) {
        return;
    }
    let extensions = request.extensions();
    let code = extensions.get::<ProblemCode>().filter(|code| code.is_of_content());
    let key = extensions.get::<Notes>().and_then(|notes| notes.api_key);
    if let (Some(code), Some(key)) = (code, key) {
        let faults = extensions.get::<Faults>().into_iter().flat_map(|faults| &faults.0);
        let faults = faults.map(|(pointer, code)| (&**pointer, *code));
        api.rejected.count(key, code.as_str(), &RequestId::of(request).id, faults);
    }
}

#[cfg(test)]
mod tests {
    use domain::{rejected::Rejected, use_cases::store_waiting::WaitingFacts as _};
    use serde_json::json;

    use crate::test_support::{Ports, TestApi};

    fn counts(api: &TestApi) -> Vec<Rejected> {
        api.api.rejected.take(usize::MAX).0
    }

    #[actix_web::test]
    async fn rejected_order_is_counted_with_its_pointers_and_its_request() {
        let api = Ports::new().api();
        let order = json!({ "signingDetailsFormData": { "signer_name": "Jane Doe" } });
        let mut requests = Vec::new();
        for _ in 0..2 {
            let answer = api.send(TestApi::post("/api/order/create").set_json(&order)).await;
            requests.push(answer.body["request_id"].as_str().unwrap().to_owned());
            let (pointer, code) = answer.errors()[0];
            assert_eq!(counts(&api)[0].faults[pointer], code);
        }
        let counts = counts(&api);
        assert_eq!(counts.len(), 1);
        assert_eq!((&*counts[0].code, counts[0].requests), ("validation_failed", 2));
        assert_eq!(counts[0].request_ids, requests);
        assert!(!format!("{counts:?}").contains("Jane"));
    }

    /// As are all that change an order.
    #[actix_web::test]
    async fn rejected_change_is_counted() {
        let api = Ports::new().api();
        let sent = json!({ "text": "" });
        let answer = api.send(TestApi::post("/api/order/1/notes").set_json(&sent)).await;
        answer.problem(400, "validation_failed");
        assert_eq!(counts(&api)[0].faults["/text"], "blank");
    }

    #[actix_web::test]
    async fn other_rejections_are_not_counted() {
        let api = Ports::new().api();
        // A read, and an order that is not there.
        api.send(TestApi::get("/api/order?limit=0")).await.problem(400, "validation_failed");
        let missing = TestApi::post("/api/order/x/cancel");
        api.send(missing).await.problem(404, "not_found");
        assert_eq!(counts(&api), []);
    }
}
