//! `GET /api/webhooks/{webhook_id}/deliveries`: answers with a page of the deliveries of a webhook.

use actix_web::{HttpRequest, web};
use domain::{
    ports::{DeliveryPageQuery, Page},
    webhook::{WebhookDelivery, WebhookDeliveryId, manage_webhooks::WebhooksError},
};

use crate::{
    respond::{
        answer::{Response, answer},
        list,
        paging::{Paging, Shown},
    },
    state::Api,
    webhooks::{endpoint::find, path, record::DeliveryRecord},
};

pub(crate) fn list(request: HttpRequest, api: web::Data<Api>) -> Response {
    answer(request, async move |request| {
        let (owner, id) = find(request, &api).await?;
        let paging = Paging::parse(request.query_string(), &[], |_, _| Ok(()))?;
        let query =
            DeliveryPageQuery { limit: paging.limit, cursor: paging.cursor(WebhookDeliveryId) };
        let (endpoint, page) = match api.webhooks.deliveries(owner, id, &query).await {
            Err(WebhooksError::UnknownCursor) => {
                let detail = "must be the identifier of a delivery of this webhook";
                return Err(paging.unknown_cursor("unknown_delivery", detail));
            }
            page => page?,
        };
        let url = format!("{}/deliveries", path::of_webhook(&api.base_path, id));
        let deliveries = page.items.iter();
        let records = deliveries.map(|delivery| DeliveryRecord::new(delivery, &endpoint));
        list::page(request, url, &paging, shown(&page), records)
    })
}

fn shown(page: &Page<WebhookDelivery>) -> Shown {
    let ends = page.items.first().zip(page.items.last());
    Shown {
        ends: ends.map(|(newest, oldest)| (newest.id.0, oldest.id.0)),
        has_older: page.has_older,
        has_newer: page.has_newer,
    }
}

#[cfg(test)]
#[path = "deliveries_tests.rs"]
mod tests;
