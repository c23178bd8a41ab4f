//! `GET /api/services`: the names of the signing services that orders may name.

use actix_web::HttpRequest;
use domain::order::SigningServiceId;
use serde::Serialize;

use crate::{
    admission::{authentication::admit_any, rate_limit::Policy},
    respond::{
        answer::Answer,
        list::{self, Others, Paging},
    },
    state::State,
};

pub(crate) const PATH: &str = "/api/services";

/// Needs no scope: a name is no secret among the parties of an installation.
pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let caller = admit_any(&request, &api.admission, Policy::Reads).await?;
    let paging = Paging::parse(request.query_string())?;
    let cursor = paging.cursor(SigningServiceId);
    api.answers.hold(&request, caller.party()).await?;
    let page = api.list_services.page(&caller, paging.limit, &cursor).await?;
    let Some(page) = page else {
        let detail = "must be the number of a signing service of this list";
        return Err(paging.unknown_cursor("unknown_service", detail));
    };
    let url = format!("{}{PATH}", api.base_path);
    let records = page.items.iter().map(|service| {
        let id = service.id.0;
        (id, ServiceRecord { signing_service_id: id, name: &service.name })
    });
    list::page(&request, url, &paging, Others::from(&page), records)
}

/// The record of a signing service, without its addresses.
#[derive(Serialize)]
struct ServiceRecord<'a> {
    signing_service_id: i64,
    name: &'a str,
}

#[cfg(test)]
#[path = "list_services_tests.rs"]
mod tests;
