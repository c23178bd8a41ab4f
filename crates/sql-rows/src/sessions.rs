//! Rows of sessions and of the ceremonies that begin them.

use diesel::{
    dsl::{self, auto_type},
    prelude::*,
    sql_types::Bool,
};
use domain::{
    api_key::ApiKeyId,
    person::{
        Ceremony, CeremonyData, Doer, NewSession, PersonId, Purpose, Session, SessionId, TokenHash,
        Way,
    },
    ports::{Cause, WhichSessions},
};
use time::OffsetDateTime;

use crate::{
    Unreadable, Utc, digest,
    schema::{ceremonies, people, sessions},
};

/// A session to store.
#[derive(Insertable)]
#[diesel(table_name = sessions, treat_none_as_default_value = false)]
pub struct NewSessionRow {
    token: Vec<u8>,
    person_id: Option<i64>,
    api_key_id: Option<i64>,
    way: String,
    is_test: bool,
    signed_in_at: Utc,
    last_used_at: Utc,
    expires_at: Utc,
}

impl From<&NewSession> for NewSessionRow {
    fn from(session: &NewSession) -> Self {
        let (person_id, api_key_id) = columns_of(session.doer);
        Self {
            token: session.token.0.to_vec(),
            person_id,
            api_key_id,
            way: session.way.stored(),
            is_test: session.is_test,
            signed_in_at: Utc(session.signed_in_at),
            last_used_at: Utc(session.signed_in_at),
            expires_at: Utc(session.expires_at),
        }
    }
}

/// A session.
#[derive(Queryable, Selectable)]
#[diesel(table_name = sessions)]
pub struct SessionRow {
    id: i64,
    token: Vec<u8>,
    person_id: Option<i64>,
    api_key_id: Option<i64>,
    way: String,
    is_test: bool,
    signed_in_at: Utc,
    last_used_at: Utc,
    expires_at: Utc,
    ended_at: Option<Utc>,
}

impl SessionRow {
    /// Returns the session.
    ///
    /// # Errors
    /// Another program has changed the row, or a later version has written it.
    pub fn into_session(self) -> Result<Session, Unreadable> {
        let unreadable = |column: &str| Unreadable::new("sessions", &self.id, &column);
        let doer = match (self.person_id, self.api_key_id) {
            (Some(person), None) => Doer::Person(PersonId(person)),
            (None, Some(key)) => Doer::Key(ApiKeyId(key)),
            _ => return Err(unreadable("person_id")),
        };
        Ok(Session {
            id: SessionId(self.id),
            session: NewSession {
                token: TokenHash(digest(self.token, || unreadable("token"))?),
                doer,
                way: Way::from_stored(&self.way).ok_or_else(|| unreadable("way"))?,
                is_test: self.is_test,
                signed_in_at: self.signed_in_at.0,
                expires_at: self.expires_at.0,
            },
            last_used_at: self.last_used_at.0,
            ended_at: self.ended_at.map(|at| at.0),
        })
    }
}

/// Selects the session of a token that is not ended.
#[auto_type(no_type_alias)]
pub fn open_session(token: TokenHash) -> _ {
    let token: Vec<u8> = token.0.to_vec();
    sessions::table.filter(sessions::token.eq(token).and(sessions::ended_at.is_null()))
}

/// Selects the tokens of the sessions that are not ended at an instant.
#[auto_type(no_type_alias)]
pub fn open_tokens(at: OffsetDateTime) -> _ {
    let at: Utc = Utc(at);
    sessions::table
        .filter(sessions::ended_at.is_null().and(sessions::expires_at.gt(at)))
        .select(sessions::token)
}

/// Returns the hash of a stored token.
///
/// # Errors
/// Another program has changed the row.
pub fn token_of(stored: Vec<u8>) -> Result<TokenHash, Unreadable> {
    let unreadable = || Unreadable::new("sessions", &"of a browser", &"token");
    Ok(TokenHash(digest(stored, unreadable)?))
}

/// Returns the person, or else the key, of a session.
fn columns_of(doer: Doer) -> (Option<i64>, Option<i64>) {
    match doer {
        Doer::Person(person) => (Some(person.0), None),
        Doer::Key(key) => (None, Some(key.0)),
    }
}

/// Selects the numbers of the sessions of a person or a key that are not ended, but for one, the last used first.
#[auto_type(no_type_alias)]
pub fn sessions_of(doer: Doer, except: Option<SessionId>) -> _ {
    let columns: (Option<i64>, Option<i64>) = columns_of(doer);
    let person: Option<i64> = columns.0;
    let key: Option<i64> = columns.1;
    // No session has the number 0.
    let except: i64 = except.map_or(0, |session| session.0);
    sessions::table
        .filter(sessions::person_id.eq(person).or(sessions::api_key_id.eq(key)))
        .filter(sessions::ended_at.is_null().and(sessions::id.ne(except)))
        .order((sessions::last_used_at.desc(), sessions::id.desc()))
        .select(sessions::id)
}

/// Selects those of these sessions that are not ended.
#[auto_type(no_type_alias)]
pub fn open_among(ids: Vec<i64>) -> _ {
    sessions::table.filter(sessions::id.eq_any(ids).and(sessions::ended_at.is_null()))
}

/// Returns the session and the person to which a call is limited.
fn limits(which: WhichSessions) -> (Option<i64>, Option<i64>) {
    match which {
        WhichSessions::One(session) => (Some(session.0), None),
        WhichSessions::OfPerson(person) => (None, Some(person.0)),
        WhichSessions::All => (None, None),
    }
}

/// Selects sessions that are not ended, but for one. The conditions that do not apply are there too, so the statement
/// has one text and stays prepared.
#[auto_type(no_type_alias)]
pub fn open_sessions(which: WhichSessions, except: Option<SessionId>) -> _ {
    let limits: (Option<i64>, Option<i64>) = limits(which);
    let any_session: dsl::AsExprOf<bool, Bool> = limits.0.is_none().into_sql::<Bool>();
    let session: i64 = limits.0.unwrap_or_default();
    let any_person: dsl::AsExprOf<bool, Bool> = limits.1.is_none().into_sql::<Bool>();
    let person: i64 = limits.1.unwrap_or_default();
    // No session has the number 0.
    let except: i64 = except.map_or(0, |session| session.0);
    sessions::table
        .filter(any_session.or(sessions::id.eq(session)))
        .filter(any_person.or(sessions::person_id.eq(person)))
        .filter(sessions::ended_at.is_null().and(sessions::id.ne(except)))
}

/// Selects a session that was not used since an instant.
#[auto_type(no_type_alias)]
pub fn session_unused_since(id: SessionId, at: OffsetDateTime) -> _ {
    let id: i64 = id.0;
    let at: Utc = Utc(at);
    sessions::table.filter(sessions::id.eq(id).and(sessions::last_used_at.lt(at)))
}

/// Selects the person of a session who was not seen since an instant.
#[auto_type(no_type_alias)]
pub fn person_unseen_since(person: i64, at: OffsetDateTime) -> _ {
    let at: Utc = Utc(at);
    let is_earlier = people::last_seen_at.is_null().or(people::last_seen_at.lt(at));
    people::table.filter(people::id.eq(person).and(is_earlier))
}

/// A ceremony.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = ceremonies, treat_none_as_default_value = false)]
pub struct CeremonyRow {
    token: Vec<u8>,
    purpose: String,
    invitation: Option<Vec<u8>>,
    person_id: Option<i64>,
    session_id: Option<i64>,
    way: String,
    place: String,
    state: Vec<u8>,
    expires_at: Utc,
}

impl CeremonyRow {
    /// Returns the row of a ceremony.
    ///
    /// # Errors
    /// Its data cannot be written, which does not happen.
    pub fn new(ceremony: &Ceremony) -> Result<Self, Cause> {
        let (purpose, invitation, person_id, session_id) = match ceremony.purpose {
            Purpose::SignIn => ("sign_in", None, None, None),
            Purpose::Accept(token) => ("accept", Some(token.0.to_vec()), None, None),
            Purpose::AddPasskey(person) => ("add_passkey", None, Some(person.0), None),
            Purpose::Confirm(person, session) => ("confirm", None, Some(person.0), Some(session.0)),
        };
        let (way, place, state) = match &ceremony.data {
            CeremonyData::Passkey { origin, state } => ("passkey", origin.clone(), state.clone()),
            CeremonyData::Login { pending, return_to } => {
                ("login", return_to.clone(), serde_json::to_vec(pending)?)
            }
        };
        Ok(Self {
            token: ceremony.token.0.to_vec(),
            purpose: purpose.to_owned(),
            invitation,
            person_id,
            session_id,
            way: way.to_owned(),
            place,
            state,
            expires_at: Utc(ceremony.expires_at),
        })
    }

    /// Returns the ceremony.
    ///
    /// # Errors
    /// Another program has changed the row, or a later version has written it.
    pub fn into_ceremony(self) -> Result<Ceremony, Unreadable> {
        let unreadable = |column: &str| Unreadable::new("ceremonies", &"of a browser", &column);
        let person = || self.person_id.map(PersonId).ok_or_else(|| unreadable("person_id"));
        let purpose = match &*self.purpose {
            "sign_in" => Purpose::SignIn,
            "accept" => {
                let token = self.invitation.clone().unwrap_or_default();
                Purpose::Accept(TokenHash(digest(token, || unreadable("invitation"))?))
            }
            "add_passkey" => Purpose::AddPasskey(person()?),
            "confirm" => {
                let session = self.session_id.ok_or_else(|| unreadable("session_id"))?;
                Purpose::Confirm(person()?, SessionId(session))
            }
            _ => return Err(unreadable("purpose")),
        };
        let data = match &*self.way {
            "passkey" => CeremonyData::Passkey { origin: self.place, state: self.state },
            "login" => {
                let pending =
                    serde_json::from_slice(&self.state).map_err(|_| unreadable("state"))?;
                CeremonyData::Login { pending: Box::new(pending), return_to: self.place }
            }
            _ => return Err(unreadable("way")),
        };
        let token = TokenHash(digest(self.token, || unreadable("token"))?);
        Ok(Ceremony { token, purpose, data, expires_at: self.expires_at.0 })
    }
}

/// Selects the ceremony of a token that has not expired.
#[auto_type(no_type_alias)]
pub fn open_ceremony(token: TokenHash, now: OffsetDateTime) -> _ {
    let token: Vec<u8> = token.0.to_vec();
    let now: Utc = Utc(now);
    ceremonies::table.filter(ceremonies::token.eq(token).and(ceremonies::expires_at.gt(now)))
}

/// Removes the ceremonies beyond a number, those that expire first: `$1` is the number.
pub const REMOVE_OLDEST_CEREMONIES: &str = "DELETE FROM ceremonies WHERE token IN \
    (SELECT token FROM ceremonies ORDER BY expires_at DESC LIMIT 1000 OFFSET $1)";
