//! The paths of the API, and the handlers that answer them.

use std::future::ready;

use actix_web::{
    FromRequest, Handler, HttpRequest, Resource, Responder, Route,
    http::{Method, StatusCode, header},
    web::{self, Redirect, ServiceConfig},
};
use domain::access::AccessKind;

use crate::{
    admission::{audit::Audit, preconditions::Preconditions},
    console, docs_page, home_page, keys, list_notaries, list_services, openapi, ops,
    orders::{
        add_documents, add_note, archive, change, create_form, create_json, list_accesses,
        list_changes, list_orders, path, put, read_document, read_order, withdraw,
    },
    people, read_key,
    respond::{
        answer::{Answer, answer, reject},
        problem::{Problem, ProblemCode},
        static_file::StaticFile,
    },
    sessions,
    webhooks::{
        deliveries, endpoint,
        path::{DELIVERIES, REPLAY, REPLAY_DELIVERY, ROTATE_SECRET, TEST, WEBHOOK, WEBHOOKS},
    },
};

/// Returns the operations of the API: each path below the base path, and its methods. The OpenAPI
/// document describes them all. Every request that uses an order leaves an audit entry. Creation leaves none:
/// the order has its own creation time.
#[expect(clippy::too_many_lines, reason = "one table has all operations")]
pub(crate) fn operations() -> [(&'static str, Vec<MethodRoutes>); 45] {
    use AccessKind as Kind;
    [
        (create_json::PATH, vec![on(POST, create_json::create)]),
        (create_form::PATH, vec![on(POST, create_form::create)]),
        (
            path::ORDERS,
            vec![access(Kind::List, GET, list_orders::list), access(Kind::Change, PUT, put::put)],
        ),
        // Before the path of an order, which fits it, too.
        (path::CHANGES, vec![access(Kind::List, GET, list_changes::list)]),
        (
            path::ORDER,
            vec![
                access(Kind::Read, GET, read_order::read),
                access(Kind::Change, PUT, change::change),
                access(Kind::Update, PATCH, change::update),
            ],
        ),
        (path::HISTORY, vec![access(Kind::ReadHistory, GET, read_order::list_history)]),
        (path::ACCESSES, vec![access(Kind::ReadAccesses, GET, list_accesses::list)]),
        (path::CANCEL, vec![access(Kind::Cancel, POST, change::cancel)]),
        (
            path::NOTES,
            vec![
                access(Kind::ReadNotes, GET, read_order::list_notes),
                access(Kind::AddNote, POST, add_note::add),
            ],
        ),
        (
            path::DOCUMENTS,
            vec![
                access(Kind::ListDocuments, GET, read_order::list_documents),
                access(Kind::AddDocuments, POST, add_documents::add),
            ],
        ),
        (path::DOCUMENTS_ZIP, vec![access(Kind::DownloadAll, GET, archive::read)]),
        (
            path::DOCUMENT,
            vec![
                access(Kind::Download, GET, read_document::read),
                access(Kind::Withdraw, DELETE, withdraw::withdraw),
            ],
        ),
        (
            path::SIGNED_DOCUMENTS,
            vec![
                access(Kind::ListSignedDocuments, GET, read_order::list_signed),
                access(Kind::AddSignedDocuments, POST, add_documents::add_signed),
            ],
        ),
        (
            path::SIGNED_DOCUMENTS_ZIP,
            vec![access(Kind::DownloadAllSigned, GET, archive::read_signed)],
        ),
        (
            path::SIGNED_DOCUMENT,
            vec![
                access(Kind::DownloadSigned, GET, read_document::read_signed),
                access(Kind::WithdrawSigned, DELETE, withdraw::withdraw_signed),
            ],
        ),
        (list_services::PATH, vec![on(GET, list_services::list)]),
        (list_notaries::PATH, vec![on(GET, list_notaries::list)]),
        (read_key::PATH, vec![on(GET, read_key::read)]),
        (
            WEBHOOKS,
            vec![on(GET, endpoint::list), access(Kind::CreateWebhook, POST, endpoint::create)],
        ),
        (
            WEBHOOK,
            vec![
                on(GET, endpoint::read),
                access(Kind::ChangeWebhook, PATCH, endpoint::change),
                access(Kind::DeleteWebhook, DELETE, endpoint::delete),
            ],
        ),
        (ROTATE_SECRET, vec![access(Kind::RotateWebhook, POST, endpoint::rotate_secret)]),
        (TEST, vec![on(POST, deliveries::test)]),
        (DELIVERIES, vec![on(GET, deliveries::list)]),
        (REPLAY_DELIVERY, vec![on(POST, deliveries::replay_delivery)]),
        (REPLAY, vec![on(POST, deliveries::replay)]),
        (
            sessions::path::SESSION,
            vec![
                on(GET, sessions::session::read),
                access(Kind::SignOut, DELETE, sessions::session::end),
            ],
        ),
        (sessions::path::WAYS, vec![on(GET, sessions::ways::read)]),
        (sessions::path::KEY, vec![on(POST, sessions::key::begin)]),
        (sessions::path::INVITATION, vec![on(POST, sessions::invitation::look)]),
        (sessions::path::PASSKEY, vec![on(POST, sessions::passkey::begin)]),
        (sessions::path::PASSKEY_FINISH, vec![on(POST, sessions::passkey::finish)]),
        (sessions::path::LOGIN, vec![on(POST, sessions::login::begin)]),
        (sessions::path::LOGIN_FINISH, vec![on(POST, sessions::login::finish)]),
        (
            people::path::PEOPLE,
            vec![on(GET, people::list::list), access(Kind::Invite, POST, people::invite::create)],
        ),
        // Before the path of a person, which fits it, too.
        (
            people::path::ME,
            vec![
                on(GET, people::own::read),
                access(Kind::ChangePerson, PATCH, people::own::change),
            ],
        ),
        (people::path::OWN_PASSKEYS, vec![on(POST, people::own_passkeys::begin)]),
        (
            people::path::OWN_PASSKEYS_FINISH,
            vec![access(Kind::AddPasskey, POST, people::own_passkeys::finish)],
        ),
        (
            people::path::OWN_PASSKEY,
            vec![access(Kind::RemovePasskey, DELETE, people::own_passkeys::remove)],
        ),
        (people::path::PERSON, vec![access(Kind::ChangePerson, PATCH, people::change::change)]),
        (
            people::path::INVITATION,
            vec![
                access(Kind::Invite, POST, people::invite::repeat),
                access(Kind::WithdrawInvitation, DELETE, people::invite::withdraw),
            ],
        ),
        (
            people::path::SESSIONS,
            vec![
                on(GET, people::sessions::list),
                access(Kind::EndSessions, DELETE, people::sessions::end),
            ],
        ),
        (
            people::path::PASSKEY,
            vec![access(Kind::RemovePasskey, DELETE, people::passkeys::remove)],
        ),
        (
            keys::path::KEYS,
            vec![on(GET, keys::list::list), access(Kind::IssueKey, POST, keys::issue::issue)],
        ),
        (keys::path::KEY, vec![access(Kind::RevokeKey, DELETE, keys::revoke::revoke)]),
        (keys::path::ROTATE, vec![access(Kind::RotateKey, POST, keys::rotate::rotate)]),
    ]
}

/// Adds every path to an application, with the console or without.
pub(crate) fn configure(config: &mut ServiceConfig, base_path: &str, has_console: bool) {
    let at = |path: &str| format!("{base_path}{path}");
    let home = move || ready(home_page::response(has_console));
    if let Some((_, last)) = base_path.rsplit_once('/') {
        for (path, to) in [(base_path, last), ("/", &base_path[1..])] {
            // The links of the page are relative to its path with a slash.
            let location = format!("{to}/");
            let found =
                move || ready(Redirect::to(location.clone()).using_status_code(StatusCode::FOUND));
            config.service(resource(path, vec![plain(GET.0, &found)]));
        }
    }
    for (path, routes) in operations() {
        config.service(resource(&at(path), routes));
    }
    config
        .service(resource(&at(openapi::PATH), vec![plain(GET.0, &openapi::serve)]))
        .service(resource(&at("/"), vec![plain(GET.0, &home)]));
    add_page(config, base_path, &docs_page::FILES);
    if has_console {
        add_page(config, base_path, &console::FILES);
    }
    config.default_service(web::to(async |request: HttpRequest| {
        reject(&request, &Problem::new(ProblemCode::NotFound, "This path does not exist."))
    }));
}

/// Adds the files of a page, of which the first is the page itself. Its path with a slash redirects
/// to it, because its links are relative to the path without one.
fn add_page(config: &mut ServiceConfig, base_path: &str, files: &'static [StaticFile]) {
    for file in files {
        let send = move |request: HttpRequest| ready(file.response(&request));
        let path = format!("{base_path}{}", file.path);
        config.service(resource(&path, vec![plain(GET.0, &send)]));
    }
    if let Some(page) = files.first() {
        let without_slash = move || ready(Redirect::to(format!("..{}", page.path)).permanent());
        let path = format!("{base_path}{}/", page.path);
        config.service(resource(&path, vec![plain(GET.0, &without_slash)]));
    }
}

/// Adds the operators' paths to an application.
pub(crate) fn configure_ops(config: &mut ServiceConfig) {
    config
        .service(resource("/healthz", vec![plain(GET.0, &ops::healthz)]))
        .service(resource("/readyz", vec![plain(GET.0, &ops::readyz)]))
        .service(resource("/metrics", vec![plain(GET.0, &ops::metrics)]));
}

/// Methods and their handlers.
type MethodRoutes = Vec<(Method, Route)>;

/// Methods that change nothing.
#[derive(Clone, Copy)]
struct Reading(&'static [Method]);

/// Methods whose handlers take the preconditions of their requests.
#[derive(Clone, Copy)]
struct Changing(&'static [Method]);

const DELETE: Changing = Changing(&[Method::DELETE]);
const PATCH: Changing = Changing(&[Method::PATCH]);
const POST: Changing = Changing(&[Method::POST]);
const PUT: Changing = Changing(&[Method::PUT]);
/// The server leaves out the body of an answer to `HEAD`.
const GET: Reading = Reading(&[Method::GET, Method::HEAD]);

trait Methods: Copy {
    fn methods(&self) -> &'static [Method];
}

impl Methods for Reading {
    fn methods(&self) -> &'static [Method] {
        self.0
    }
}

impl Methods for Changing {
    fn methods(&self) -> &'static [Method] {
        self.0
    }
}

/// Routes methods to an operation of the API.
fn on<M: Methods, Args: FromRequest + 'static, H: ApiHandler<M, Args>>(
    methods: M,
    handler: H,
) -> MethodRoutes {
    plain(methods.methods(), &move |request: HttpRequest, args: Args| {
        let handling = handler.handle(&request, args);
        answer(request, handling, |_| {})
    })
}

/// Routes methods to an operation on orders, people, keys or webhooks, whose requests of a known caller leave an
/// access of this kind.
fn access<M: Methods, Args: FromRequest + 'static, H: OrderHandler<M, Args>>(
    kind: AccessKind,
    methods: M,
    handler: H,
) -> MethodRoutes {
    plain(methods.methods(), &move |request: HttpRequest, args: Args| {
        let audit = Audit::new(kind);
        let handling = handler.handle(audit.clone(), &request, args);
        answer(request, handling, move |outcome| audit.end(outcome))
    })
}

/// A handler of an operation that is not on one order. If it changes something, its first argument are the
/// preconditions of its request.
trait ApiHandler<M, Args>: Clone + 'static {
    fn handle(&self, request: &HttpRequest, args: Args) -> impl Future<Output = Answer> + 'static;
}

impl<H, F, A, B> ApiHandler<Reading, (A, B)> for H
where
    H: Fn(A, B) -> F + Clone + 'static,
    F: Future<Output = Answer> + 'static,
{
    fn handle(&self, _: &HttpRequest, (a, b): (A, B)) -> impl Future<Output = Answer> + 'static {
        self(a, b)
    }
}

impl<H, F, A, B> ApiHandler<Changing, (A, B)> for H
where
    H: Fn(Preconditions, A, B) -> F + Clone + 'static,
    F: Future<Output = Answer> + 'static,
{
    fn handle(
        &self,
        request: &HttpRequest,
        (a, b): (A, B),
    ) -> impl Future<Output = Answer> + 'static {
        self(Preconditions::of(request), a, b)
    }
}

impl<H, F, A, B, C> ApiHandler<Changing, (A, B, C)> for H
where
    H: Fn(Preconditions, A, B, C) -> F + Clone + 'static,
    F: Future<Output = Answer> + 'static,
{
    fn handle(
        &self,
        request: &HttpRequest,
        (a, b, c): (A, B, C),
    ) -> impl Future<Output = Answer> + 'static {
        self(Preconditions::of(request), a, b, c)
    }
}

/// A handler of an operation on orders. Its first argument is the audit entry of its request. If it changes
/// something, the next are the preconditions.
trait OrderHandler<M, Args>: Clone + 'static {
    fn handle(
        &self,
        audit: Audit,
        request: &HttpRequest,
        args: Args,
    ) -> impl Future<Output = Answer> + 'static;
}

impl<H, F, A, B> OrderHandler<Reading, (A, B)> for H
where
    H: Fn(Audit, A, B) -> F + Clone + 'static,
    F: Future<Output = Answer> + 'static,
{
    fn handle(
        &self,
        audit: Audit,
        _: &HttpRequest,
        (a, b): (A, B),
    ) -> impl Future<Output = Answer> + 'static {
        self(audit, a, b)
    }
}

impl<H, F, A, B> OrderHandler<Changing, (A, B)> for H
where
    H: Fn(Audit, Preconditions, A, B) -> F + Clone + 'static,
    F: Future<Output = Answer> + 'static,
{
    fn handle(
        &self,
        audit: Audit,
        request: &HttpRequest,
        (a, b): (A, B),
    ) -> impl Future<Output = Answer> + 'static {
        self(audit, Preconditions::of(request), a, b)
    }
}

impl<H, F, A, B, C> OrderHandler<Changing, (A, B, C)> for H
where
    H: Fn(Audit, Preconditions, A, B, C) -> F + Clone + 'static,
    F: Future<Output = Answer> + 'static,
{
    fn handle(
        &self,
        audit: Audit,
        request: &HttpRequest,
        (a, b, c): (A, B, C),
    ) -> impl Future<Output = Answer> + 'static {
        self(audit, Preconditions::of(request), a, b, c)
    }
}

fn plain<Args: FromRequest + 'static, H: Handler<Args>>(
    methods: &[Method],
    handler: &H,
) -> MethodRoutes
where
    H::Output: Responder + 'static,
{
    let route = |method: &Method| (method.clone(), web::method(method.clone()).to(handler.clone()));
    methods.iter().map(route).collect()
}

/// Builds a path. Other methods than those of its routes are answered with 405 and `Allow`.
fn resource(path: &str, routes: Vec<MethodRoutes>) -> Resource {
    let (methods, routes): (Vec<Method>, Vec<Route>) = routes.into_iter().flatten().unzip();
    let allow = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let problem =
        Problem::new(ProblemCode::MethodNotAllowed, format!("This path supports {allow}."))
            .with_header(header::ALLOW, allow);
    let not_allowed = move |request: HttpRequest| ready(reject(&request, &problem));
    routes
        .into_iter()
        .fold(web::resource(path), Resource::route)
        .default_service(web::to(not_allowed))
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod access_tests;

#[cfg(test)]
mod tests {
    use actix_web::{
        App,
        dev::Service as _,
        http::header::HeaderValue,
        test::{TestRequest, init_service, read_body},
    };

    use super::*;

    #[actix_web::test]
    async fn base_path_leads_to_the_page_with_a_slash() {
        for (path, location) in [("/a/notary", "notary/"), ("/", "a/notary/")] {
            let app = App::new().configure(|it| configure(it, "/a/notary", true));
            let service = init_service(app).await;
            let found = service.call(TestRequest::with_uri(path).to_request()).await.unwrap();
            let sent = found.headers().get("location").and_then(|location| location.to_str().ok());
            assert_eq!((found.status().as_u16(), sent), (302, Some(location)), "{path}");
        }
    }

    #[actix_web::test]
    async fn home_page_links_what_there_is() {
        for (base, has_console) in [("", true), ("/a/notary", true), ("", false)] {
            let app = App::new().configure(|it| configure(it, base, has_console));
            let service = init_service(app).await;
            let get = |path: &str| TestRequest::with_uri(&format!("{base}/{path}")).to_request();
            let answer = service.call(get("")).await.unwrap();
            assert_eq!(answer.status(), 200);
            let page = read_body(answer).await;
            let page = std::str::from_utf8(&page).unwrap();
            let links = page.split(" href=\"").skip(1).filter_map(|it| it.split('"').next());
            let links: Vec<_> = links.filter(|link| !link.starts_with("data:")).collect();
            let expected = ["console", "docs", "openapi.json"];
            assert_eq!(links, expected[usize::from(!has_console)..]);
            for link in links {
                // The document needs settings that this test has not.
                assert_ne!(service.call(get(link)).await.unwrap().status(), 404, "{link}");
            }
            assert!(page.contains("/readyz"));
        }
    }

    #[actix_web::test]
    async fn console_can_be_taken_away() {
        for (has_console, status) in [(true, 200), (false, 404)] {
            let app = App::new().configure(|it| configure(it, "/base", has_console));
            let service = init_service(app).await;
            for file in &console::FILES {
                let request = TestRequest::with_uri(&format!("/base{}", file.path)).to_request();
                let answer = service.call(request).await.unwrap();
                assert_eq!(answer.status(), status, "{}", file.path);
            }
        }
    }

    #[actix_web::test]
    async fn files_are_compressed_for_clients_that_accept_gzip() {
        let service = init_service(App::new().configure(|it| configure(it, "", true))).await;
        for (path, accepted, is_compressed) in [
            ("/console/shared/api.js", "gzip, deflate, br, zstd", true),
            ("/docs/docs.js", "gzip;q=0.5", true),
            (docs_page::FILES[2].path, "gzip", true),
            (docs_page::FILES[2].path, "identity", false),
            ("/console/shared/api.js", "br", false),
            ("/console/shared/api.js", "gzip;q=0", false),
        ] {
            let request = TestRequest::with_uri(path).insert_header(("accept-encoding", accepted));
            let answer = service.call(request.to_request()).await.unwrap();
            let encoding = answer.headers().get("content-encoding").map(HeaderValue::as_bytes);
            let expected = is_compressed.then_some(&b"gzip"[..]);
            assert_eq!((answer.status().as_u16(), encoding), (200, expected), "{path} {accepted}");
            // Also what was not compressed depends on what the client accepts.
            let vary: Vec<_> = answer.headers().get_all("vary").collect();
            assert_eq!(vary, ["accept-encoding"], "{path} {accepted}");
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
