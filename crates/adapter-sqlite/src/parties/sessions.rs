//! Sessions, and the ceremonies that begin them.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use diesel::{prelude::*, sql_query, sql_types::BigInt, sqlite::SqliteConnection};
use domain::{
    api_key::{Party, binding},
    person::{
        Caller, Ceremony, Doer, Holder, MAX_CEREMONIES, NewSession, PersonState, Session,
        SessionId, TokenHash,
    },
    ports::{SessionRepo, StoreError, WhichSessions},
};
use sql_rows::{
    Utc,
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

use crate::{
    failure::Failure,
    store::{SqliteStore, columns},
};

#[async_trait]
impl SessionRepo for SqliteStore {
    async fn add(
        &self,
        session: &NewSession,
        replaces: Option<SessionId>,
    ) -> Result<Option<Session>, StoreError> {
        let session = session.clone();
        let add = move |connection: &mut SqliteConnection| {
            let at = session.signed_in_at;
            if !may_begin(connection, session.doer, at)? {
                return Ok(None);
            }
            let others = sessions_of(session.doer, replaces);
            let others: Vec<i64> = others.get_results(connection)?;
            let surplus = session.doer.surplus(others);
            let ended: Vec<i64> = replaces.map(|id| id.0).into_iter().chain(surplus).collect();
            diesel::update(open_among(ended))
                .set(sessions::ended_at.eq(Some(Utc(at))))
                .execute(connection)?;
            let added = diesel::insert_into(sessions::table)
                .values(NewSessionRow::from(&session))
                .returning(sessions::id);
            let id = SessionId(added.get_result(connection)?);
            Ok(Some(Session { id, session, last_used_at: at, ended_at: None }))
        };
        self.transaction(add).await
    }

    async fn find(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
    ) -> Result<Option<Caller>, StoreError> {
        let find = move |connection: &mut SqliteConnection| {
            let row = open_session(token).select(columns::<SessionRow>());
            let row = row.get_result(connection).optional()?;
            let Some(session) = row.map(SessionRow::into_session).transpose()? else {
                return Ok(None);
            };
            let mut bound_to = None;
            let holder = match session.session.doer {
                Doer::Person(person) => {
                    let row = people::table.find(person.0).select(columns::<PersonRow>());
                    let row: PersonRow = row.get_result(connection)?;
                    let person = row.into_person()?;
                    let owner = person.owner(session.session.is_test);
                    if let Party::Client(client) = owner.party {
                        let keys = keys_of(client).select(columns::<ApiKeyRow>());
                        let keys: Vec<ApiKeyRow> = keys.get_results(connection)?;
                        let keys = keys.into_iter().map(ApiKeyRow::into_key);
                        bound_to = binding(&keys.collect::<Result<Vec<_>, _>>()?, owner, now);
                    }
                    Holder::Person(Arc::new(person))
                }
                Doer::Key(key) => {
                    let row = api_keys::table.find(key.0).select(columns::<ApiKeyRow>());
                    let row: ApiKeyRow = row.get_result(connection)?;
                    Holder::Key(Arc::new(row.into_key()?))
                }
            };
            Ok(Some(Caller::of_session(session, holder).bound_to(bound_to)))
        };
        self.read(find).await
    }

    async fn tokens(&self, at: OffsetDateTime) -> Result<HashSet<TokenHash>, StoreError> {
        let read = move |connection: &mut SqliteConnection| {
            let stored: Vec<Vec<u8>> = open_tokens(at).get_results(connection)?;
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
        let open = diesel::update(open_sessions(which, except));
        self.execute(open.set(sessions::ended_at.eq(Some(Utc(at))))).await
    }

    async fn note_uses(&self, uses: &[(SessionId, OffsetDateTime)]) -> Result<(), StoreError> {
        let uses = uses.to_vec();
        let note = move |connection: &mut SqliteConnection| {
            let mut seen = Vec::new();
            for (id, at) in uses {
                let noted = diesel::update(session_unused_since(id, at))
                    .set(sessions::last_used_at.eq(Utc(at)))
                    .returning(sessions::person_id);
                let person: Option<Option<i64>> = noted.get_result(connection).optional()?;
                seen.extend(person.flatten().map(|person| (person, at)));
            }
            for (person, at) in seen {
                diesel::update(person_unseen_since(person, at))
                    .set(people::last_seen_at.eq(Some(Utc(at))))
                    .execute(connection)?;
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
        let begin = move |connection: &mut SqliteConnection| {
            diesel::insert_into(ceremonies::table).values(row).execute(connection)?;
            let oldest = sql_query(REMOVE_OLDEST_CEREMONIES);
            let oldest = oldest.bind::<BigInt, _>(row_limit(MAX_CEREMONIES));
            oldest.execute(connection)?;
            Ok(())
        };
        self.transaction(begin).await
    }

    async fn take(
        &self,
        token: TokenHash,
        now: OffsetDateTime,
    ) -> Result<Option<Ceremony>, StoreError> {
        let take = move |connection: &mut SqliteConnection| {
            let removed =
                diesel::delete(open_ceremony(token, now)).returning(columns::<CeremonyRow>());
            let row: Option<CeremonyRow> = removed.get_result(connection).optional()?;
            Ok(row.map(CeremonyRow::into_ceremony).transpose()?)
        };
        self.transaction(take).await
    }
}

/// Returns whether a session may begin.
fn may_begin(
    connection: &mut SqliteConnection,
    doer: Doer,
    at: OffsetDateTime,
) -> Result<bool, Failure> {
    match doer {
        Doer::Person(person) => {
            let row = person_row(person).select(columns::<PersonRow>());
            let row = row.get_result(connection).optional()?;
            let person = row.map(PersonRow::into_person).transpose()?;
            Ok(person.is_some_and(|person| person.state() == PersonState::Active))
        }
        Doer::Key(key) => {
            let valid = valid_key(key, at).select(api_keys::id);
            let valid: Option<i64> = valid.get_result(connection).optional()?;
            Ok(valid.is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use contract_tests::samples::NOW;
    use diesel::connection::SimpleConnection as _;
    use domain::person::{CeremonyData, Purpose};

    use super::*;

    #[tokio::test]
    async fn oldest_ceremony_goes_when_there_is_one_too_many() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_patiently(&directory.path().join("database")).unwrap();
        store.migrate().await.unwrap();
        let fill = format!(
            "WITH RECURSIVE numbers (n) AS
                (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MAX_CEREMONIES})
            INSERT INTO ceremonies (token, purpose, way, place, state, expires_at)
            SELECT randomblob(32), 'sign_in', 'passkey', 'https://a.example', x'00', n FROM numbers"
        );
        let fill = move |connection: &mut SqliteConnection| Ok(connection.batch_execute(&fill)?);
        store.transaction::<(), StoreError>(fill).await.unwrap();
        let data = CeremonyData::Passkey { origin: "https://a.example".to_owned(), state: vec![] };
        let (token, purpose, expires_at) = (TokenHash([1; 32]), Purpose::SignIn, NOW);

        store.begin(&Ceremony { token, purpose, data, expires_at }).await.unwrap();

        let left = |connection: &mut SqliteConnection| {
            let left = "SELECT count(*) * 10 + min(expires_at) FROM ceremonies";
            Ok(diesel::dsl::sql::<BigInt>(left).get_result::<i64>(connection)?)
        };
        let left: i64 = store.transaction::<_, StoreError>(left).await.unwrap();
        assert_eq!(left, row_limit(MAX_CEREMONIES) * 10 + 2);
        assert!(store.take(token, NOW - time::Duration::SECOND).await.unwrap().is_some());
    }
}
