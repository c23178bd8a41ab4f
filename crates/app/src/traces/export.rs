//! The queue of ended spans, and their export to the collector.
//!
//! A thread exports the spans. A collector that is slow or gone costs spans, which are counted, and
//! never holds up a request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use domain::ports::error_chain;
use opentelemetry::Context;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{RetryPolicy, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor},
};
use prometheus::{IntCounterVec, Opts, Registry};
use reqwest::redirect;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

use super::environment::Environment;

/// Bytes of the body of an answer that are read.
const MAX_ANSWER: usize = 64 * 1024;

/// Longest time of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Counts spans by what became of them.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    spans: IntCounterVec,
    /// Spans that wait for their export, or are being exported.
    waiting: Arc<AtomicUsize>,
}

impl Counts {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let spans = IntCounterVec::new(
            Opts::new(
                "notary_orders_trace_spans_total",
                "Spans, by outcome: exported; dropped because too many waited; or failed, because \
                 the collector did not take them.",
            ),
            &["outcome"],
        )?;
        for outcome in ["exported", "dropped", "failed"] {
            spans.with_label_values(&[outcome]);
        }
        Ok(Self { spans, waiting: Arc::default() })
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.spans.clone()))
    }

    fn count(&self, outcome: &str, spans: usize) {
        self.spans.with_label_values(&[outcome]).inc_by(spans as u64);
    }
}

/// Returns the queue of ended spans, with the thread that exports them.
pub(super) fn processor(
    environment: &Environment,
    counts: Counts,
) -> Result<impl SpanProcessor + use<>> {
    let otlp = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(BlockingHttp::new(environment.timeout)?)
        .with_timeout(environment.timeout)
        .build()?;
    let exporter = Exporter { otlp, counts: counts.clone(), is_failing: AtomicBool::new(false) };
    let max_waiting = environment.max_queue_size;
    let config = BatchConfigBuilder::default().with_max_queue_size(max_waiting).build();
    Ok(Queue { batches: BatchSpanProcessor::new(exporter, config), counts, max_waiting })
}

/// A bounded queue that counts what finds no room. The processor of the library only logs it.
#[derive(Debug)]
struct Queue<P> {
    batches: P,
    counts: Counts,
    max_waiting: usize,
}

impl<P: SpanProcessor> SpanProcessor for Queue<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.counts.waiting.fetch_add(1, Ordering::Relaxed) < self.max_waiting {
            self.batches.on_end(span);
        } else {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.counts.count("dropped", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Exports batches, counts their spans, and logs when a collector fails and when it works again.
#[derive(Debug)]
struct Exporter<E> {
    otlp: E,
    counts: Counts,
    is_failing: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Exporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.otlp.export(batch).await;
        self.counts.waiting.fetch_sub(spans, Ordering::Relaxed);
        self.counts.count(if exported.is_ok() { "exported" } else { "failed" }, spans);
        let was_failing = self.is_failing.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Err(error) if !was_failing => {
                tracing::warn!(error = error_chain(error), "spans cannot be exported");
            }
            Ok(()) if was_failing => tracing::info!("spans are exported again"),
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

/// Sends batches.
#[derive(Debug)]
struct Http {
    client: reqwest::Client,
    time_limit: Duration,
}

impl Http {
    fn new(time_limit: Duration) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .user_agent("notary-orders")
            .redirect(redirect::Policy::none())
            .build()?;
        Ok(Self { client, time_limit })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = self.client.execute(request.try_into()?).await?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = answer.headers().clone();
        }
        let mut body = Vec::new();
        while body.len() < MAX_ANSWER
            && let Some(bytes) = answer.chunk().await?
        {
            body.extend_from_slice(&bytes);
        }
        Ok(response.body(body.into())?)
    }
}

#[async_trait]
impl HttpClient for Http {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = timeout(self.time_limit, self.exchange(request)).await;
        answer.map_err(|_| format!("no answer within {:?}", self.time_limit))?
    }
}

/// Sends batches from the thread that exports. It has no runtime, so the client brings one.
#[derive(Debug)]
struct BlockingHttp {
    http: Http,
    runtime: Runtime,
}

impl BlockingHttp {
    fn new(time_limit: Duration) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("no runtime for the export")?;
        Ok(Self { http: Http::new(time_limit)?, runtime })
    }
}

#[async_trait]
impl HttpClient for BlockingHttp {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.runtime.block_on(self.http.send_bytes(request))
    }
}

/// Exports no span, to find out whether the collector accepts any.
pub(crate) struct Probe {
    otlp: opentelemetry_otlp::SpanExporter,
    causes: Receiver<String>,
}

impl Probe {
    pub(super) fn new(environment: &Environment) -> Result<Self> {
        let time_limit = environment.timeout.min(PROBE_LIMIT);
        let (sender, causes) = channel();
        let http = Witness { http: Http::new(time_limit)?, causes: sender };
        let otlp = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(http)
            .with_retry_policy(RetryPolicy::disabled())
            .with_timeout(time_limit)
            .build()?;
        Ok(Self { otlp, causes })
    }

    /// Returns why the collector accepts no spans.
    pub(crate) async fn run(self) -> Result<(), String> {
        let Err(error) = self.otlp.export(Vec::new()).await else { return Ok(()) };
        Err(self.causes.try_recv().unwrap_or_else(|_| error.to_string()))
    }
}

/// Tells the causes of failures, which the exporter of the library leaves out.
#[derive(Debug)]
struct Witness {
    http: Http,
    causes: Sender<String>,
}

#[async_trait]
impl HttpClient for Witness {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.http.send_bytes(request).await;
        let cause = match &sent {
            Ok(answer) => format!("it answers {}", answer.status()),
            Err(error) => error_chain(error.as_ref()),
        };
        // Without a receiver there is nothing to tell.
        let _ = self.causes.send(cause);
        sent
    }
}
