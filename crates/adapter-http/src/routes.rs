//! The paths of the API, and the handlers that answer them.

use std::future::ready;

use actix_web::{
    FromRequest, Handler, HttpRequest, Resource, Responder, Route,
    http::Method,
    web::{self, ServiceConfig},
};

use crate::{
    answer::reject,
    docs_page, openapi, ops,
    orders::{self, create_form, create_json, path},
    problem::{Problem, ProblemCode},
    webhooks,
};

/// Adds every path to an application.
pub(crate) fn configure(config: &mut ServiceConfig, base_path: &str) {
    let at = |path: &str| format!("{base_path}{path}");
    config
        .service(resource(&at(create_json::PATH), [post(orders::create)]))
        .service(resource(&at(create_form::PATH), [post(orders::create_with_documents)]))
        .service(resource(&at(path::ORDERS), [get(orders::list_orders)]))
        .service(resource(&at(path::ORDER), [get(orders::read_order)]))
        .service(resource(
            &at(path::DOCUMENTS),
            [get(orders::list_documents), post(orders::add_documents)],
        ))
        .service(resource(&at(path::DOCUMENT), [get(orders::read_document)]))
        .service(resource(
            &at(webhooks::path::WEBHOOKS),
            [get(webhooks::list), post(webhooks::create)],
        ))
        .service(resource(
            &at(webhooks::path::WEBHOOK),
            [
                get(webhooks::read),
                on(Method::PATCH, webhooks::change),
                on(Method::DELETE, webhooks::delete),
            ],
        ))
        .service(resource(&at(webhooks::path::ROTATE_SECRET), [post(webhooks::rotate_secret)]))
        .service(resource(&at(webhooks::path::TEST), [post(webhooks::test)]))
        .service(resource(&at(webhooks::path::DELIVERIES), [get(webhooks::list_deliveries)]))
        .service(resource(&at(webhooks::path::REPLAY_DELIVERY), [post(webhooks::replay_delivery)]))
        .service(resource(&at(webhooks::path::REPLAY), [post(webhooks::replay)]))
        .service(resource(&at(openapi::PATH), [get(openapi::serve)]))
        .service(resource(&at(docs_page::TRAILING_SLASH), [get(docs_page::redirect)]));
    for file in &docs_page::FILES {
        let send = move |request: HttpRequest| ready(file.response(&request));
        config.service(resource(&at(&file.path()), [get(send)]));
    }
    config.default_service(web::to(async |request: HttpRequest| {
        reject(&request, &Problem::new(ProblemCode::NotFound, "This path does not exist."))
    }));
}

/// Adds the operators' paths to an application.
pub(crate) fn configure_ops(config: &mut ServiceConfig) {
    config
        .service(resource("/healthz", [get(ops::healthz)]))
        .service(resource("/readyz", [get(ops::readyz)]))
        .service(resource("/metrics", [get(ops::metrics)]));
}

/// A handler and the methods that it answers.
type MethodRoutes = Vec<(Method, Route)>;

fn post<Args: FromRequest + 'static, H: Handler<Args>>(handler: H) -> MethodRoutes
where
    H::Output: Responder + 'static,
{
    on(Method::POST, handler)
}

fn on<Args: FromRequest + 'static, H: Handler<Args>>(method: Method, handler: H) -> MethodRoutes
where
    H::Output: Responder + 'static,
{
    vec![(method.clone(), web::method(method).to(handler))]
}

/// Answers `HEAD`, too; the server leaves out the body.
fn get<Args: FromRequest + 'static, H: Handler<Args>>(handler: H) -> MethodRoutes
where
    H::Output: Responder + 'static,
{
    vec![(Method::GET, web::get().to(handler.clone())), (Method::HEAD, web::head().to(handler))]
}

/// Builds a path. Other methods than those of its routes are answered with 405 and `Allow`.
fn resource(path: &str, routes: impl IntoIterator<Item = MethodRoutes>) -> Resource {
    let (methods, routes): (Vec<Method>, Vec<Route>) = routes.into_iter().flatten().unzip();
    let allow = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let not_allowed =
        move |request: HttpRequest| ready(reject(&request, &Problem::method_not_allowed(&allow)));
    routes
        .into_iter()
        .fold(web::resource(path), Resource::route)
        .default_service(web::to(not_allowed))
}

#[cfg(test)]
mod tests {
    use actix_web::{
        App,
        dev::Service as _,
        test::{TestRequest, init_service},
    };

    use super::*;
    use crate::test_support::Ports;

    #[actix_web::test]
    async fn unknown_path_is_not_found() {
        let request = TestRequest::get().uri("/api/unknown");

        Ports::without_key().api().send(request).await.problem(404, "not_found");
    }

    #[actix_web::test]
    async fn other_methods_are_not_allowed() {
        for (path, allow) in [
            (create_json::PATH, "POST"),
            (create_form::PATH, "POST"),
            ("/api/order", "GET, HEAD"),
            ("/api/order/7", "GET, HEAD"),
            ("/api/order/7/documents", "GET, HEAD, POST"),
            ("/api/order/7/documents/0", "GET, HEAD"),
            ("/api/webhooks", "GET, HEAD, POST"),
            ("/api/webhooks/7", "GET, HEAD, PATCH, DELETE"),
            ("/api/webhooks/7/rotate-secret", "POST"),
            ("/api/webhooks/7/test", "POST"),
            ("/api/webhooks/7/deliveries", "GET, HEAD"),
            ("/api/webhooks/7/deliveries/1/replay", "POST"),
            ("/api/webhooks/7/replay", "POST"),
            (openapi::PATH, "GET, HEAD"),
        ] {
            let request = TestRequest::default().method(Method::PUT).uri(path);

            let answer = Ports::without_key().api().send(request).await;

            answer.problem(405, "method_not_allowed");
            assert_eq!(answer.header("allow"), allow);
        }
    }

    #[actix_web::test]
    async fn ops_paths_support_get_and_head() {
        let service = init_service(App::new().configure(configure_ops)).await;
        let send = async |method, path| {
            let request = TestRequest::with_uri(path).method(method).to_request();
            service.call(request).await.unwrap()
        };
        assert_eq!(send(Method::HEAD, "/healthz").await.status(), 200);
        for path in ["/healthz", "/readyz", "/metrics"] {
            let response = send(Method::OPTIONS, path).await;
            assert_eq!(response.status(), 405, "{path}");
            assert_eq!(response.headers().get("allow").unwrap(), "GET, HEAD", "{path}");
        }
    }
}
