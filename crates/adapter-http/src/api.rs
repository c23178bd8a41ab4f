//! The two operations.

use std::{panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, http::header, web};
use domain::{
    create_order::{CreateOrder, CreateOrderError, CreatedOrder},
    document::DocumentLimits,
    manage_keys::ManageKeys,
    order::{Field, OrderRequest},
    ports::Entropy,
};
use futures_util::FutureExt as _;
use ipnet::IpNet;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::{
    auth, body,
    connections::Connections,
    docs_page, form,
    idempotency::{self, Begun, IDEMPOTENCY_REPLAYED, InFlight, Underway},
    metrics::ApiMetrics,
    observe::{OrderNote, RequestId, TurnedAway},
    openapi,
    order_record::OrderRecord,
    problem::{Problem, ProblemCode},
    rate_limit::{Policy, RateLimits},
    room::Room,
    spool::Spool,
};

/// Path of the operation without documents, below the base path.
pub const CREATE: &str = "/api/order/create";
/// Path of the operation with documents, below the base path.
pub const CREATE_WITH_DOCUMENTS: &str = "/api/order/create-with-documents";
/// Path of the OpenAPI document, below the base path.
pub const OPENAPI: &str = "/openapi.json";

/// The operations, as metrics and logs name them.
const WITHOUT_DOCUMENTS: &str = "json";
const WITH_DOCUMENTS: &str = "multipart";

/// Bytes of a JSON body; an order with every text at its cap has a fifth of it.
pub const MAX_JSON_BODY: u64 = 256 * 1024;

/// Everything that the API stands on.
pub struct Api {
    /// The use case behind both operations.
    pub create_order: CreateOrder,
    /// Who may call them.
    pub keys: ManageKeys,
    /// How often.
    pub rates: RateLimits,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Limits of a request's documents.
    pub limits: DocumentLimits,
    /// Where documents lie while they arrive.
    pub spool: Spool,
    /// What is counted.
    pub metrics: ApiMetrics,
    /// Randomness for request ids.
    pub entropy: Arc<dyn Entropy>,
    /// Put before every path; empty, or `/` and a path without a trailing slash.
    pub base_path: String,
    /// Where orders with documents are placed, so that one whose client has gone is still finished.
    pub runtime: Handle,
    /// The orders with documents that are being placed.
    pub placing: TaskTracker,
    /// The idempotency keys of orders without documents that are being placed.
    pub underway: Underway,
    /// Who is connected.
    pub connections: Connections,
    /// Room for the orders without documents that are placed at a time.
    pub room: Room,
}

impl Api {
    /// Counts an order, and logs what is strange about it, whether or not its client is still there
    /// to be told.
    fn count(
        &self,
        operation: &str,
        CreatedOrder { stored, utc_disagreements, replayed }: &CreatedOrder,
    ) {
        if *replayed {
            return self.metrics.replayed();
        }
        if stored.is_test {
            self.metrics.test_order(operation);
        } else {
            self.metrics.created(operation, stored.documents.iter().map(|document| document.size));
        }
        for field in utc_disagreements {
            tracing::warn!(
                order_id = stored.id.0,
                field,
                "supplied UTC datetime disagrees with the conversion, which was stored"
            );
            self.metrics.utc_disagreement(field);
        }
    }
}

pub(crate) fn routes(config: &mut web::ServiceConfig, base_path: &str) {
    let only = |method: &'static str| {
        web::route().to(move |request: HttpRequest| async move {
            failed(&request, &Problem::method_not_allowed(method))
        })
    };
    config
        .service(
            web::resource(format!("{base_path}{CREATE}"))
                .post(create)
                .default_service(only("POST")),
        )
        .service(
            web::resource(format!("{base_path}{CREATE_WITH_DOCUMENTS}"))
                .post(create_with_documents)
                .default_service(only("POST")),
        )
        .configure(|config| docs_page::routes(config, base_path))
        .service(
            web::resource(format!("{base_path}{OPENAPI}"))
                .get(openapi_document)
                .route(web::head().to(openapi_document))
                .default_service(only("GET, HEAD")),
        )
        .default_service(web::to(async |request: HttpRequest| {
            failed(&request, &Problem::new(ProblemCode::NotFound, "There is nothing at this path."))
        }));
}

fn failed(request: &HttpRequest, problem: &Problem) -> HttpResponse {
    problem.response(RequestId::of(request).as_str())
}

async fn openapi_document(api: web::Data<Api>) -> HttpResponse {
    HttpResponse::Ok().json(openapi::document(&api.base_path))
}

/// Boxed, because the framework hands the future of a handler on by value several times, and what
/// is within has kilobytes.
type Answering = Pin<Box<dyn Future<Output = HttpResponse>>>;

fn create(request: HttpRequest, payload: web::Payload, api: web::Data<Api>) -> Answering {
    Box::pin(async move {
        answer(
            &request,
            &api,
            WITHOUT_DOCUMENTS,
            Box::pin(order_from_json(&request, payload, &api)),
        )
        .await
    })
}

fn create_with_documents(
    request: HttpRequest,
    payload: web::Payload,
    api: web::Data<Api>,
) -> Answering {
    Box::pin(async move {
        answer(&request, &api, WITH_DOCUMENTS, Box::pin(order_from_form(&request, payload, &api)))
            .await
    })
}

async fn order_from_json(
    request: &HttpRequest,
    payload: web::Payload,
    api: &Api,
) -> Result<CreatedOrder, Problem> {
    let key = auth::admit(request, api, Policy::Orders).await?;
    let claim = idempotency::claim(request, &key, api)?;
    let _turn = claim.as_ref().map(|claim| api.underway.begin(&claim.key)).transpose()?;
    if request.headers().get_all(header::CONTENT_TYPE).count() > 1 {
        return Err(Problem::malformed("The content type is given twice."));
    }
    if !request.content_type().eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            ProblemCode::UnsupportedMediaType,
            "The content type must be application/json.",
        ));
    }
    body::announced(request, MAX_JSON_BODY)?;
    let body = body::whole(request, payload, MAX_JSON_BODY).await?;
    // Not before, because a body may take its time.
    let _place = api.room.enter().ok_or_else(|| {
        api.metrics.shed();
        request.extensions_mut().insert(TurnedAway);
        Problem::overloaded()
    })?;
    let text =
        std::str::from_utf8(&body).map_err(|_| Problem::malformed("The body is not UTF-8."))?;
    match serde_json::from_str(text) {
        Ok(Field::Value(order)) => {
            let attempt = claim
                .map(|claim| idempotency::attempt(claim, WITHOUT_DOCUMENTS, &order, &[]))
                .transpose()?;
            let created = Box::pin(api.create_order.create(&key, order, attempt.as_ref())).await;
            Ok(created.inspect(|created| api.count(WITHOUT_DOCUMENTS, created))?)
        }
        Ok(Field::<OrderRequest>::Absent | Field::Mistyped) => {
            Err(Problem::malformed("The body must be a JSON object."))
        }
        Err(error) => Err(Problem::malformed(format!("The body is not valid JSON: {error}."))),
    }
}

async fn order_from_form(
    request: &HttpRequest,
    payload: web::Payload,
    api: &web::Data<Api>,
) -> Result<CreatedOrder, Problem> {
    let key = auth::admit(request, api, Policy::OrdersWithDocuments).await?;
    let claim = idempotency::claim(request, &key, api)?;
    body::announced(request, form::cap(api.limits))?;
    let (in_flight, answered) = match &claim {
        Some(claim) => match InFlight::begin(api, claim).await? {
            Begun::First(in_flight) => (Some(in_flight), None),
            Begun::Again(answered) => (None, Some(answered)),
        },
        None => (None, None),
    };
    let read = form::read(request, payload, &api.spool, api.limits).await.and_then(|form| {
        let attempt = claim
            .map(|claim| {
                idempotency::attempt(claim, WITH_DOCUMENTS, &form.request, &form.documents)
            })
            .transpose()?;
        Ok((form, attempt))
    });
    let (form, attempt) = match read {
        Ok(read) => read,
        Err(problem) => {
            release(in_flight).await;
            return Err(problem);
        }
    };
    if let (Some(answered), Some(attempt)) = (answered, &attempt) {
        let created = api.create_order.repeat(answered, attempt.fingerprint).await;
        return Ok(created.inspect(|created| api.count(WITH_DOCUMENTS, created))?);
    }
    let own = api.clone();
    let placing = async move {
        let created = own
            .create_order
            .create_with_documents(&key, form.request, form.documents, attempt.as_ref())
            .await;
        drop(form.guards);
        match &created {
            Ok(created) => {
                // Here, because its client may be gone before it is answered.
                let (order_id, documents, test) =
                    (created.stored.id.0, created.stored.documents.len(), created.stored.is_test);
                tracing::info!(
                    order_id,
                    documents,
                    test,
                    replayed = created.replayed,
                    "order placed"
                );
                own.count(WITH_DOCUMENTS, created);
                in_flight.into_iter().for_each(InFlight::answered);
            }
            // Who waits for the answer need not wait until a store that does not answer has not
            // answered once more.
            Err(CreateOrderError::Unavailable(_)) => drop(in_flight),
            Err(_) => release(in_flight).await,
        }
        created
    };
    // On its own, so that a client that goes away does not leave an order half placed.
    match api.placing.spawn_on(placing.in_current_span(), &api.runtime).await {
        Ok(created) => Ok(created?),
        // The panic hook has logged it, with its place. What it says may quote the order.
        Err(_) => Err(Problem::internal()),
    }
}

async fn release(in_flight: Option<InFlight>) {
    if let Some(in_flight) = in_flight {
        in_flight.release().await;
    }
}

/// Makes the response of an operation.
async fn answer(
    request: &HttpRequest,
    api: &Api,
    operation: &'static str,
    work: impl Future<Output = Result<CreatedOrder, Problem>>,
) -> HttpResponse {
    let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        // The panic hook has logged it, with its place.
        Err(Problem::internal())
    });
    match outcome {
        Ok(created) => {
            request.extensions_mut().insert(OrderNote::of(&created));
            let mut response = HttpResponse::Created();
            if created.replayed {
                response.insert_header((IDEMPOTENCY_REPLAYED, "true"));
            }
            response.json(OrderRecord::new(&created.stored, operation == WITH_DOCUMENTS))
        }
        Err(problem) => {
            if problem.code() == ProblemCode::DuplicateOrder {
                api.metrics.duplicate();
            }
            request.extensions_mut().insert(problem.code());
            problem.response(RequestId::of(request).as_str())
        }
    }
}
