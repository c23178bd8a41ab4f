//! `GET /api/keys`: the keys of a side, for its admins.

use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use crate::{
    keys::record::ListedKey, people::admin::admit_reading, respond::answer::Answer, state::State,
};

pub(crate) async fn list(request: HttpRequest, api: State) -> Answer {
    let (_, admin) = admit_reading(&request, &api).await?;
    let keys = api.own_keys.list(admin).await?;
    let records = keys.iter().map(ListedKey::of).collect::<Vec<_>>();
    Ok(HttpResponse::Ok().json(json!({ "keys": records })))
}
