//! A change of status or notary.

use diesel::{
    dsl::{self, auto_type, sql},
    expression::{SqlLiteral, UncheckedBind},
    prelude::*,
    sql_types::{BigInt, Bool, Nullable, Text},
};
use domain::{
    access::Access,
    order::{OrderStatus, search::notary_text},
    ports::OrderUpdate,
};

use crate::{
    OneOf, Utc,
    orders::{is_own, stored_notary},
    people::stored_doer,
    schema::orders,
};

/// Selects the order of an update if it may be changed so: `OrderRepo::update` has the rule. The conditions
/// that do not apply are there too, so the statement has one text and stays prepared.
#[auto_type(no_type_alias)]
pub fn changeable_order(update: &OrderUpdate) -> _ {
    let id: i64 = update.id.0;
    let is_own: is_own = is_own(update.owner);
    let any_service: dsl::AsExprOf<bool, Bool> = update.only_service.is_none().into_sql::<Bool>();
    let service: i64 = update.only_service.map_or(0, |service| service.0);
    let any_version: dsl::AsExprOf<bool, Bool> = update.expected.is_none().into_sql::<Bool>();
    let is_version: OneOf<Utc> = OneOf::new("orders.updated_at", expected_versions(update));
    let cancels_nothing: dsl::AsExprOf<bool, Bool> = (!cancels(update)).into_sql::<Bool>();
    let is_final: Vec<String> = names(&OrderStatus::FINAL);
    let closed: Vec<String> = names(&OrderStatus::CLOSED);
    let has_status: dsl::AsExprOf<bool, Bool> = update.status.is_some().into_sql::<Bool>();
    let status: String = status_of(update);
    let has_notary: dsl::AsExprOf<bool, Bool> = update.notary_id.is_some().into_sql::<Bool>();
    let is_other_notary: OtherNotary = other_notary(update);
    let has_name: dsl::AsExprOf<bool, Bool> = update.notary.is_some().into_sql::<Bool>();
    let is_other_name: OtherName = other_name(update);
    orders::table
        .filter(orders::id.eq(id).and(is_own).and(orders::erased_at.is_null()))
        .filter(orders::status.ne_all(is_final))
        .filter(any_service.or(orders::signing_service_id.eq(service)))
        .filter(any_version.or(is_version))
        .filter(cancels_nothing.or(orders::status.ne_all(closed)))
        .filter(
            has_status
                .and(orders::status.ne(status))
                .or(has_notary.and(is_other_notary))
                .or(has_name.and(is_other_name)),
        )
}

/// Returns the statuses in which an order takes no changes of its client any more, so that another one may follow it.
pub fn ended() -> Vec<String> {
    names(&[&OrderStatus::FINAL[..], &OrderStatus::OVER].concat())
}

fn names(statuses: &[OrderStatus]) -> Vec<String> {
    statuses.iter().map(|status| status.as_str().to_owned()).collect()
}

fn expected_versions(update: &OrderUpdate) -> Vec<Utc> {
    update.expected.iter().flatten().copied().map(Utc).collect()
}

fn cancels(update: &OrderUpdate) -> bool {
    update.status.as_ref() == Some(&OrderStatus::CANCELLED)
}

fn status_of(update: &OrderUpdate) -> String {
    update.status.as_ref().map(|status| status.as_str().to_owned()).unwrap_or_default()
}

type OtherNotary = UncheckedBind<SqlLiteral<Bool>, dsl::AsExprOf<Option<i64>, Nullable<BigInt>>>;

fn other_notary(update: &OrderUpdate) -> OtherNotary {
    sql::<Bool>("orders.notary_id IS DISTINCT FROM ")
        .bind::<Nullable<BigInt>, _>(update.notary_id.flatten())
}

type OtherName = UncheckedBind<SqlLiteral<Bool>, dsl::AsExprOf<Option<String>, Nullable<Text>>>;

fn other_name(update: &OrderUpdate) -> OtherName {
    sql::<Bool>("orders.notary IS DISTINCT FROM ").bind::<Nullable<Text>, _>(notary_of(update))
}

fn notary_of(update: &OrderUpdate) -> Option<String> {
    update.notary.as_ref().and_then(Option::as_ref).map(stored_notary)
}

fn notary_text_of(update: &OrderUpdate) -> Option<String> {
    update.notary.as_ref().and_then(Option::as_ref).map(notary_text)
}

type Bound<E, V, T> = UncheckedBind<E, dsl::AsExprOf<V, T>>;

type NotaryText = SqlLiteral<Nullable<Text>>;

type ChangedNotary = SqlLiteral<
    Nullable<Text>,
    Bound<
        SqlLiteral<
            Nullable<Text>,
            Bound<
                SqlLiteral<
                    Nullable<Text>,
                    Bound<
                        SqlLiteral<Nullable<Text>, Bound<NotaryText, bool, Bool>>,
                        Option<String>,
                        Nullable<Text>,
                    >,
                >,
                bool,
                Bool,
            >,
        >,
        Option<i64>,
        Nullable<BigInt>,
    >,
>;

/// Returns the notary of an order after an update: an old name never stands beside a new number.
pub fn changed_notary(update: &OrderUpdate) -> ChangedNotary {
    changed("notary", notary_of(update), update)
}

/// Returns what a search of the notary looks at after an update.
pub fn changed_notary_text(update: &OrderUpdate) -> ChangedNotary {
    changed("notary_text", notary_text_of(update), update)
}

fn changed(column: &str, value: Option<String>, update: &OrderUpdate) -> ChangedNotary {
    sql::<Nullable<Text>>("CASE WHEN ")
        .bind::<Bool, _>(update.notary.is_some())
        .sql(" THEN ")
        .bind::<Nullable<Text>, _>(value)
        .sql(" WHEN ")
        .bind::<Bool, _>(update.notary_id.is_some())
        .sql(" AND notary_id IS DISTINCT FROM ")
        .bind::<Nullable<BigInt>, _>(update.notary_id.flatten())
        .sql(&format!(" THEN NULL ELSE {column} END"))
}

/// The columns of a status or notary change. `updated_at` and the notary's name are set beside it. The
/// trigger of `migrations/` adds the entry of the history and the event.
#[derive(AsChangeset)]
#[diesel(table_name = orders)]
#[expect(
    clippy::option_option,
    reason = "diesel leaves the outer `None` as it is, and stores the inner one"
)]
pub struct ChangedOrder {
    status: Option<String>,
    notary_id: Option<Option<i64>>,
    change_actor: Option<&'static str>,
    change_reason: Option<Option<String>>,
    change_doer: Option<Option<i64>>,
}

impl From<&OrderUpdate> for ChangedOrder {
    fn from(update: &OrderUpdate) -> Self {
        Self {
            status: update.status.as_ref().map(|status| status.as_str().to_owned()),
            notary_id: update.notary_id,
            change_actor: Some(update.actor.as_str()),
            change_reason: Some(update.reason.clone()),
            change_doer: Some(update.access.as_ref().and_then(Access::doer).map(stored_doer)),
        }
    }
}
