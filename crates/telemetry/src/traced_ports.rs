//! Ports whose calls are steps of a trace. They stand before the adapters only if traces are
//! exported.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    api_key::Party,
    delivery::Notification,
    duplicate_window::DuplicateWindow,
    order::OrderId,
    ports::{
        Changed, Download, ListedOrder, NewOrder, Notice, Notifier, NotifyError,
        OrderCommandRequest, OrderRepo, OrderUpdate, StoreError, UrlRefused, WebhookAnswer,
        WebhookError, WebhookRequest, WebhookSender, WriteError,
    },
    trace_context::STEPS,
};
use tracing::{Instrument as _, Span, field::Empty};

use crate::{trace_context, traces::DELIVERIES};

/// Commits orders in a step, and stores the trace of a request with its order.
pub struct TracedOrders(pub Arc<dyn OrderRepo>);

#[async_trait]
impl OrderRepo for TracedOrders {
    async fn create(
        &self,
        order: &NewOrder,
        window: DuplicateWindow,
    ) -> Result<OrderId, WriteError> {
        let Some(trace) = trace_context::of_span(&Span::current()) else {
            return self.0.create(order, window).await;
        };
        let mut order = order.clone();
        order.order.trace = Some(trace);
        let span = tracing::info_span!(target: STEPS, "commit");
        self.0.create(&order, window).instrument(span).await
    }

    async fn change(&self, request: &OrderCommandRequest) -> Result<Changed, WriteError> {
        let span = tracing::info_span!(target: STEPS, "commit");
        self.0.change(request).instrument(span).await
    }

    async fn note_downloads(&self, downloads: &[Download]) -> Result<(), StoreError> {
        self.0.note_downloads(downloads).await
    }

    async fn update(&self, update: &OrderUpdate) -> Result<Option<ListedOrder>, StoreError> {
        let span = tracing::info_span!(target: STEPS, "commit");
        self.0.update(update).instrument(span).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.0.check().await
    }
}

/// Sends mails of traced orders in a step of their trace.
pub struct TracedNotifier(pub Arc<dyn Notifier>);

#[async_trait]
impl Notifier for TracedNotifier {
    async fn notify(&self, notification: &Notification) -> Result<(), NotifyError> {
        let Some(trace) = &notification.order.order.trace else {
            return self.0.notify(notification).await;
        };
        let span = tracing::info_span!(
            target: DELIVERIES, parent: None, "deliver mail", otel.kind = "client",
            otel.status_code = Empty
        );
        trace_context::continue_with(&span, trace);
        let sent = self.0.notify(notification).instrument(span.clone()).await;
        if sent.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        sent
    }

    async fn tell(&self, notice: &Notice) -> Result<(), NotifyError> {
        self.0.tell(notice).await
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    fn stop(&self) {
        self.0.stop();
    }

    async fn check(&self) -> Result<(), NotifyError> {
        self.0.check().await
    }
}

/// Sends webhooks of traced orders in a step of their trace, which the receiver can continue.
pub struct TracedWebhooks(pub Arc<dyn WebhookSender>);

#[async_trait]
impl WebhookSender for TracedWebhooks {
    async fn check(&self, party: Party, url: &str) -> Result<(), UrlRefused> {
        self.0.check(party, url).await
    }

    async fn send(&self, request: &WebhookRequest) -> Result<WebhookAnswer, WebhookError> {
        let Some(trace) = &request.trace else { return self.0.send(request).await };
        let span = tracing::info_span!(
            target: DELIVERIES, parent: None, "deliver webhook", otel.kind = "client",
            otel.status_code = Empty, http.request.method = "POST",
            http.response.status_code = Empty, error.type = Empty
        );
        trace_context::continue_with(&span, trace);
        let request = WebhookRequest { trace: trace_context::of_span(&span), ..request.clone() };
        let answer = self.0.send(&request).instrument(span.clone()).await;
        match &answer {
            // An unsigned number would become a text.
            Ok(answer) => span.record("http.response.status_code", i64::from(answer.status)),
            Err(error) => span.record("error.type", error.to_string()),
        };
        if !answer.as_ref().is_ok_and(|answer| (200..300).contains(&answer.status)) {
            span.record("otel.status_code", "ERROR");
        }
        answer
    }
}
