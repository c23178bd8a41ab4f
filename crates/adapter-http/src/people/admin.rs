//! The rights that requests about people and keys need.

use std::sync::Arc;

use actix_web::HttpRequest;
use domain::{
    person::{Admin, Caller, NoAdmin, Person},
    use_cases::people::manage_people::Manager,
};

use crate::{
    admission::{
        audit::{Admitted, Audit},
        authentication::admit_any,
        rate_limit::Policy,
    },
    respond::problem::Problem,
    state::Api,
};

/// Returns the right of a caller to change the people and the keys of the own side.
pub(super) fn changing(caller: &Caller, api: &Api) -> Result<Admin, Problem> {
    Ok(caller.admin(api.clock.now())?)
}

/// Admits a request that changes the people or the keys of a side.
pub(crate) async fn admit_changing(
    audit: Audit,
    request: &HttpRequest,
    api: &Api,
) -> Result<(Admitted, Admin), Problem> {
    let admitted = audit.admit_any(request, &api.admission, Policy::Changes).await?;
    let admin = changing(admitted.caller(), api)?;
    Ok((admitted, admin))
}

/// Admits a request that reads the people or the keys of a side.
pub(crate) async fn admit_reading(
    request: &HttpRequest,
    api: &Api,
) -> Result<(Arc<Caller>, Admin), Problem> {
    let caller = admit_any(request, &api.admission, Policy::Reads).await?;
    let admin = caller.reading_admin()?;
    api.answers.hold(request, caller.party()).await?;
    Ok((caller, admin))
}

/// Returns the person of a caller.
pub(super) fn person(caller: &Caller) -> Result<&Arc<Person>, Problem> {
    caller.person().ok_or_else(|| NoAdmin::Key.into())
}

/// Returns the manager with the rights of an admin.
pub(super) fn manager(admin: Admin) -> Manager {
    Manager::Admin(admin)
}
