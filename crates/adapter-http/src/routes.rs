//! The paths of the API, and the handlers that answer them.

use std::future::ready;

use actix_web::{
    FromRequest, Handler, HttpRequest, Resource, Responder, Route,
    http::Method,
    web::{self, ServiceConfig},
};

use crate::{
    observe::ops,
    openapi::{self, docs_page},
    orders::{
        self,
        create::{create_form, create_json},
        path,
    },
    respond::{
        answer::reject,
        problem::{Problem, ProblemCode},
    },
    webhooks,
};

/// Returns the operations of the API: each path below the base path, and its methods. The OpenAPI
/// document describes them all.
pub(crate) fn operations() -> [(&'static str, MethodRoutes); 13] {
    let both = |first: MethodRoutes, second| first.into_iter().chain(second).collect();
    [
        (create_json::PATH, post(orders::create)),
        (create_form::PATH, post(orders::create_with_documents)),
        (path::ORDERS, get(orders::list_orders)),
        (path::ORDER, get(orders::read_order)),
        (path::DOCUMENTS, both(get(orders::list_documents), post(orders::add_documents))),
        (path::DOCUMENT, get(orders::read_document)),
        (webhooks::path::WEBHOOKS, both(get(webhooks::list), post(webhooks::create))),
        (
            webhooks::path::WEBHOOK,
            both(
                both(get(webhooks::read), on(Method::PATCH, webhooks::change)),
                on(Method::DELETE, webhooks::delete),
            ),
        ),
        (webhooks::path::ROTATE_SECRET, post(webhooks::rotate_secret)),
        (webhooks::path::TEST, post(webhooks::test)),
        (webhooks::path::DELIVERIES, get(webhooks::list_deliveries)),
        (webhooks::path::REPLAY_DELIVERY, post(webhooks::replay_delivery)),
        (webhooks::path::REPLAY, post(webhooks::replay)),
    ]
}

/// Adds every path to an application.
pub(crate) fn configure(config: &mut ServiceConfig, base_path: &str) {
    let at = |path: &str| format!("{base_path}{path}");
    for (path, routes) in operations() {
        config.service(resource(&at(path), routes));
    }
    config
        .service(resource(&at(openapi::PATH), get(openapi::serve)))
        .service(resource(&at(docs_page::TRAILING_SLASH), get(docs_page::redirect)));
    for file in &docs_page::FILES {
        let send = move |request: HttpRequest| ready(file.response(&request));
        config.service(resource(&at(&file.path()), get(send)));
    }
    config.default_service(web::to(async |request: HttpRequest| {
        reject(&request, &Problem::new(ProblemCode::NotFound, "This path does not exist."))
    }));
}

/// Adds the operators' paths to an application.
pub(crate) fn configure_ops(config: &mut ServiceConfig) {
    config
        .service(resource("/healthz", get(ops::healthz)))
        .service(resource("/readyz", get(ops::readyz)))
        .service(resource("/metrics", get(ops::metrics)));
}

/// The methods of a path and their handlers.
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
fn resource(path: &str, routes: MethodRoutes) -> Resource {
    let (methods, routes): (Vec<Method>, Vec<Route>) = routes.into_iter().unzip();
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
