//! Sessions, and the ceremonies that begin them.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use diesel::{prelude::*, sql_query, sql_types::BigInt};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::{Party, binding},
    person::{
        Caller, Ceremony, Doer, Holder, MAX_CEREMONIES, NewSession, PersonState, Session,
        SessionId, TokenHash,
    },
    ports::{SessionRepo, StoreError, WhichSessions},
};
use sql_rows::{
    Prepared, Utc,
    api_keys::{ApiKeyRow, keys_of, valid_key},
    people::{PersonRow, person_row},
    row_limit,
    schema::{api_keys, ceremonies, people, sessions},
    sessions::{
        CeremonyRow, NewSessionRow, REMOVE_OLDEST_CEREMONIES, SessionRow, open_among,
        open_ceremony, open_session, open_sessions, open_tokens, person_unseen_since,
        session_unused_since, sessions_of, token_of,
    },
};
use time::OffsetDateTime;

use crate::{failure::Failure, locks, statement::columns, store::PostgresStore};

#[async_trait]
impl SessionRepo for PostgresStore {
    async fn add(
        &self,
        session: &NewSession,
        replaces: Option<SessionId>,
    ) -> Result<Option<Session>, StoreError> {
        let session = session.clone();
        let add = async move |connection: &mut AsyncPgConnection| {
            let at = session.signed_in_at;
            if !may_begin(connection, session.doer, at).await? {
                return Ok(None);
            }
            let others = sessions_of(session.doer, replaces);
            let others: Vec<i64> = others.get_results(connection).await?;
            let surplus = session.doer.surplus(others);
            let ended: Vec<i64> = replaces.map(|id| id.0).into_iter().chain(surplus).collect();
            // Also those that others end at the same time, by identifier.
            locks::lock(connection, "sessions", &ended).await?;
            diesel::update(open_among(ended))
                .set(sessions::ended_at.eq(Some(Utc(at))))
                .execute(connection)
                .await?;
            let added = diesel::insert_into(sessions::table)
                .values(NewSessionRow::from(&session))
                .returning(sessions::id);
            let id = SessionId(added.get_result(connection).await?);
            Ok(Some(Session { id, session, last_used_at: at, ended_at: None }))
        };
        self.transaction(add).await
    }

    async fn find(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
    ) -> Result<Option<Caller>, StoreError> {
        let find = async move |connection: &mut AsyncPgConnection| {
            let row = open_session(token).select(columns::<SessionRow>());
            let row = row.get_result(connection).await.optional()?;
            let Some(session) = row.map(SessionRow::into_session).transpose()? else {
                return Ok(None);
            };
            let mut bound_to = None;
            let holder = match session.session.doer {
                Doer::Person(person) => {
                    let row = people::table.find(person.0).select(columns::<PersonRow>());
                    let row: PersonRow = row.get_result(connection).await?;
                    let person = row.into_person()?;
                    let owner = person.owner(session.session.is_test);
                    if let Party::Client(client) = owner.party {
                        let keys = keys_of(client).select(columns::<ApiKeyRow>());
                        let keys: Vec<ApiKeyRow> = keys.get_results(connection).await?;
                        let keys = keys.into_iter().map(ApiKeyRow::into_key);
                        bound_to = binding(&keys.collect::<Result<Vec<_>, _>>()?, owner, now);
                    }
                    Holder::Person(Arc::new(person))
                }
                Doer::Key(key) => {
                    let row = api_keys::table.find(key.0).select(columns::<ApiKeyRow>());
                    let row: ApiKeyRow = row.get_result(connection).await?;
                    Holder::Key(Arc::new(row.into_key()?))
                }
            };
            Ok(Some(Caller::of_session(session, holder).bound_to(bound_to)))
        };
        self.read(find).await
    }

    async fn tokens(&self, at: OffsetDateTime) -> Result<HashSet<TokenHash>, StoreError> {
        let read = async move |connection: &mut AsyncPgConnection| {
            let stored: Vec<Vec<u8>> = Prepared(open_tokens(at)).get_results(connection).await?;
            Ok(stored.into_iter().map(token_of).collect::<Result<HashSet<_>, _>>()?)
        };
        self.read(read).await
    }

    async fn list(
        &self,
        which: WhichSessions,
        at: OffsetDateTime,
    ) -> Result<Vec<Session>, StoreError> {
        let open = open_sessions(which, None).filter(sessions::expires_at.gt(Utc(at)));
        self.select(open.order(sessions::id.desc()), SessionRow::into_session).await
    }

    async fn end(
        &self,
        which: WhichSessions,
        except: Option<SessionId>,
        at: OffsetDateTime,
    ) -> Result<usize, StoreError> {
        let end = async move |connection: &mut AsyncPgConnection| {
            lock_open(connection, which).await?;
            let open = diesel::update(open_sessions(which, except));
            let open = open.set(sessions::ended_at.eq(Some(Utc(at))));
            Ok(open.execute(connection).await?)
        };
        self.transaction(end).await
    }

    async fn note_uses(&self, uses: &[(SessionId, OffsetDateTime)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        let note = async move |connection: &mut AsyncPgConnection| {
            let ids: Vec<i64> = uses.iter().map(|(id, _)| id.0).collect();
            let people = sessions::table.filter(sessions::id.eq_any(ids.clone()));
            let people: Vec<Option<i64>> =
                people.select(sessions::person_id).get_results(connection).await?;
            let people: Vec<i64> = people.into_iter().flatten().collect();
            // Every call locks people before sessions, and both by identifier.
            locks::lock(connection, "people", &people).await?;
            locks::lock(connection, "sessions", &ids).await?;
            for (id, at) in uses {
                let noted = diesel::update(session_unused_since(id, at))
                    .set(sessions::last_used_at.eq(Utc(at)))
                    .returning(sessions::person_id);
                let person: Option<Option<i64>> = noted.get_result(connection).await.optional()?;
                let Some(person) = person.flatten() else { continue };
                diesel::update(person_unseen_since(person, at))
                    .set(people::last_seen_at.eq(Some(Utc(at))))
                    .execute(connection)
                    .await?;
            }
            Ok(())
        };
        self.transaction(note).await
    }

    async fn remove_before(&self, instant: OffsetDateTime) -> Result<(), StoreError> {
        let old = sessions::table.filter(sessions::expires_at.lt(Utc(instant)));
        self.execute(diesel::delete(old)).await?;
        let old = ceremonies::table.filter(ceremonies::expires_at.lt(Utc(instant)));
        self.execute(diesel::delete(old)).await.map(drop)
    }

    async fn begin(&self, ceremony: &Ceremony) -> Result<(), StoreError> {
        let row = CeremonyRow::new(ceremony).map_err(StoreError::Internal)?;
        let begin = async move |connection: &mut AsyncPgConnection| {
            diesel::insert_into(ceremonies::table).values(row).execute(connection).await?;
            let oldest = sql_query(REMOVE_OLDEST_CEREMONIES);
            let oldest = oldest.bind::<BigInt, _>(row_limit(MAX_CEREMONIES));
            oldest.execute(connection).await?;
            Ok(())
        };
        self.transaction(begin).await
    }

    async fn take(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
    ) -> Result<Option<Ceremony>, StoreError> {
        let take = async move |connection: &mut AsyncPgConnection| {
            let removed =
                diesel::delete(open_ceremony(token, now)).returning(columns::<CeremonyRow>());
            let row: Option<CeremonyRow> = removed.get_result(connection).await.optional()?;
            Ok(row.map(CeremonyRow::into_ceremony).transpose()?)
        };
        self.transaction(take).await
    }
}

/// Locks the sessions that are not ended, by identifier, so that two calls never deadlock.
pub(super) async fn lock_open(
    connection: &mut AsyncPgConnection,
    which: WhichSessions,
) -> Result<(), Failure> {
    let open = open_sessions(which, None).select(sessions::id);
    let open: Vec<i64> = open.get_results(connection).await?;
    Ok(locks::lock(connection, "sessions", &open).await?)
}

/// Returns whether a session may begin. Locks its person or its key, so that a change at the same time waits, and ends
/// the session then.
async fn may_begin(
    connection: &mut AsyncPgConnection,
    doer: Doer,
    at: OffsetDateTime,
) -> Result<bool, Failure> {
    match doer {
        Doer::Person(person) => {
            locks::lock(connection, "people", &[person.0]).await?;
            let row = person_row(person).select(columns::<PersonRow>());
            let row = row.get_result(connection).await.optional()?;
            let person = row.map(PersonRow::into_person).transpose()?;
            Ok(person.is_some_and(|person| person.state() == PersonState::Active))
        }
        Doer::Key(key) => {
            locks::lock(connection, "api_keys", &[key.0]).await?;
            let valid = valid_key(key, at).select(api_keys::id);
            let valid: Option<i64> = valid.get_result(connection).await.optional()?;
            Ok(valid.is_some())
        }
    }
}
