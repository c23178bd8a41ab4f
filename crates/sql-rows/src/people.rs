//! Rows of people, their invitations and their ways to sign in.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    api_key::{ApiKeyId, Party},
    people::EmailAddress,
    person::{
        Credential, CredentialId, Doer, FORMER_USER, Identity, Invitation, NewInvitation,
        NewPasskey, NewPerson, Passkey, PasskeyId, Person, PersonId, PersonName, PersonState, Role,
        TokenHash, UserHandle,
    },
};
use time::{Duration, OffsetDateTime};

use crate::{
    OneOf, Unreadable, Utc, digest,
    party::{party_of, stored_party},
    schema::{api_keys, identities, invitations, passkeys, people},
};

/// Returns how one who acts is stored: a key, or minus the number of a person.
pub fn stored_doer(doer: Doer) -> i64 {
    match doer {
        Doer::Key(key) => key.0,
        Doer::Person(person) => -person.0,
    }
}

/// Returns the one who is stored.
pub fn doer_of(stored: i64) -> Doer {
    if stored < 0 {
        Doer::Person(PersonId(stored.saturating_neg()))
    } else {
        Doer::Key(ApiKeyId(stored))
    }
}

/// A person to invite.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = people, treat_none_as_default_value = false)]
pub struct NewPersonRow {
    party: i64,
    name: String,
    email: Option<String>,
    role: String,
    handle: Vec<u8>,
    invited_at: Utc,
}

impl From<&NewPerson> for NewPersonRow {
    fn from(person: &NewPerson) -> Self {
        Self {
            party: stored_party(person.party),
            name: person.name.as_str().to_owned(),
            email: person.email.as_ref().map(|email| email.as_str().to_owned()),
            role: person.role.as_str().to_owned(),
            handle: person.handle.0.to_vec(),
            invited_at: Utc(person.invited_at),
        }
    }
}

/// A person.
#[derive(Queryable, Selectable)]
#[diesel(table_name = people)]
pub struct PersonRow {
    id: i64,
    #[diesel(embed)]
    person: NewPersonRow,
    accepted_at: Option<Utc>,
    disabled_at: Option<Utc>,
    erased_at: Option<Utc>,
    last_seen_at: Option<Utc>,
}

impl PersonRow {
    /// Returns the person.
    ///
    /// # Errors
    /// Another program has changed the row.
    pub fn into_person(self) -> Result<Person, Unreadable> {
        let unreadable = |column: &str| Unreadable::new("people", &self.id, &column);
        let row = self.person;
        let handle: [u8; 64] = row.handle.try_into().map_err(|_| unreadable("handle"))?;
        Ok(Person {
            id: PersonId(self.id),
            person: NewPerson {
                party: party_of(row.party),
                name: PersonName::from_stored(row.name),
                email: row.email.map(EmailAddress::from_stored),
                role: Role::from_name(&row.role).ok_or_else(|| unreadable("role"))?,
                handle: UserHandle(handle),
                invited_at: row.invited_at.0,
            },
            accepted_at: self.accepted_at.map(|at| at.0),
            disabled_at: self.disabled_at.map(|at| at.0),
            erased_at: self.erased_at.map(|at| at.0),
            last_seen_at: self.last_seen_at.map(|at| at.0),
        })
    }
}

/// The columns of a person that a change sets.
#[derive(AsChangeset)]
#[diesel(table_name = people, treat_none_as_null = true)]
pub struct ChangedPerson {
    name: String,
    email: Option<String>,
    role: String,
    disabled_at: Option<Utc>,
}

impl From<&Person> for ChangedPerson {
    fn from(person: &Person) -> Self {
        let NewPersonRow { name, email, role, .. } = NewPersonRow::from(&person.person);
        Self { name, email, role, disabled_at: person.disabled_at.map(Utc) }
    }
}

/// The columns of a person that an erasure sets.
#[derive(AsChangeset)]
#[diesel(table_name = people, treat_none_as_null = true)]
pub struct ErasedPerson {
    name: &'static str,
    email: Option<String>,
    handle: Vec<u8>,
    erased_at: Option<Utc>,
}

impl ErasedPerson {
    /// Returns the columns of an erasure at an instant.
    pub fn at(at: OffsetDateTime) -> Self {
        let erased_at = Some(Utc(at));
        Self { name: FORMER_USER, email: None, handle: vec![0; 64], erased_at }
    }
}

/// Selects a person who is not erased.
#[auto_type(no_type_alias)]
pub fn person_row(id: PersonId) -> _ {
    let id: i64 = id.0;
    people::table.filter(people::id.eq(id).and(people::erased_at.is_null()))
}

/// Selects the people of a side, by identifier.
#[auto_type(no_type_alias)]
pub fn people_of(party: Party) -> _ {
    let party: i64 = stored_party(party);
    people::table.filter(people::party.eq(party).and(people::erased_at.is_null())).order(people::id)
}

/// Selects all people, by identifier.
#[auto_type(no_type_alias)]
pub fn all_people() -> _ {
    people::table.filter(people::erased_at.is_null()).order(people::id)
}

/// Returns the numbers of the active admins among people.
pub fn active_admins(people: &[Person]) -> Vec<i64> {
    people.iter().filter(|person| person.is_active_admin()).map(|person| person.id.0).collect()
}

/// Selects those of these people who have a passkey, once for each.
#[auto_type(no_type_alias)]
pub fn with_passkeys(people: Vec<i64>) -> _ {
    passkeys::table.filter(passkeys::person_id.eq_any(people)).select(passkeys::person_id)
}

/// Selects those of these people who have a login of these issuers, once for each.
#[auto_type(no_type_alias)]
pub fn with_logins(people: Vec<i64>, issuers: Vec<String>) -> _ {
    identities::table
        .filter(identities::person_id.eq_any(people).and(identities::issuer.eq_any(issuers)))
        .select(identities::person_id)
}

/// An invitation to store.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = invitations)]
pub struct NewInvitationRow {
    token: Vec<u8>,
    person_id: i64,
    created_at: Utc,
    expires_at: Utc,
    issued_by: Option<i64>,
}

impl NewInvitationRow {
    /// Returns the row of an invitation of a person.
    pub fn new(person: PersonId, invitation: &NewInvitation) -> Self {
        Self {
            token: invitation.token.0.to_vec(),
            person_id: person.0,
            created_at: Utc(invitation.created_at),
            expires_at: Utc(invitation.expires_at),
            issued_by: invitation.issued_by.map(|admin| admin.0),
        }
    }
}

/// An invitation.
#[derive(Queryable, Selectable)]
#[diesel(table_name = invitations)]
pub struct InvitationRow {
    #[diesel(embed)]
    invitation: NewInvitationRow,
    used_at: Option<Utc>,
    withdrawn_at: Option<Utc>,
}

impl InvitationRow {
    /// Returns the invitation.
    ///
    /// # Errors
    /// Another program has changed the row.
    pub fn into_invitation(self) -> Result<Invitation, Unreadable> {
        let row = self.invitation;
        let unreadable = || Unreadable::new("invitations", &"of a person", &"token");
        Ok(Invitation {
            invitation: NewInvitation {
                token: TokenHash(digest(row.token, unreadable)?),
                created_at: row.created_at.0,
                expires_at: row.expires_at.0,
                issued_by: row.issued_by.map(PersonId),
            },
            person: PersonId(row.person_id),
            used_at: self.used_at.map(|at| at.0),
            withdrawn_at: self.withdrawn_at.map(|at| at.0),
        })
    }
}

/// Selects the open invitations of a person.
#[auto_type(no_type_alias)]
pub fn open_invitations(person: PersonId) -> _ {
    let person: i64 = person.0;
    invitations::table.filter(
        invitations::person_id
            .eq(person)
            .and(invitations::used_at.is_null())
            .and(invitations::withdrawn_at.is_null()),
    )
}

/// Selects the open invitations that a person has issued.
#[auto_type(no_type_alias)]
pub fn issued_invitations(admin: PersonId) -> _ {
    let admin: i64 = admin.0;
    invitations::table.filter(
        invitations::issued_by
            .eq(admin)
            .and(invitations::used_at.is_null())
            .and(invitations::withdrawn_at.is_null()),
    )
}

/// Selects the invitations of people that can be accepted at an instant.
#[auto_type(no_type_alias)]
pub fn acceptable_invitations(people: &[PersonId], at: OffsetDateTime) -> _ {
    let invited: OneOf<i64> = OneOf::new("invitations.person_id", numbers(people));
    let at: Utc = Utc(at);
    invitations::table.filter(invited).filter(
        invitations::used_at
            .is_null()
            .and(invitations::withdrawn_at.is_null())
            .and(invitations::expires_at.gt(at)),
    )
}

/// Selects the invitations of a side that can be accepted at an instant.
#[auto_type(no_type_alias)]
pub fn invitations_of(party: Party, at: OffsetDateTime) -> _ {
    let party: i64 = stored_party(party);
    let at: Utc = Utc(at);
    invitations::table.inner_join(people::table).filter(
        people::party
            .eq(party)
            .and(invitations::used_at.is_null())
            .and(invitations::withdrawn_at.is_null())
            .and(invitations::expires_at.gt(at)),
    )
}

/// Selects the invitations that an admin has issued within a day, whatever became of them.
#[auto_type(no_type_alias)]
pub fn invitations_of_day(admin: PersonId, now: OffsetDateTime) -> _ {
    let admin: i64 = admin.0;
    let since: Utc = Utc(now.saturating_sub(Duration::DAY));
    invitations::table
        .filter(invitations::issued_by.eq(admin).and(invitations::created_at.gt(since)))
}

/// Selects the invitation of a token.
#[auto_type(no_type_alias)]
pub fn invitation_row(token: TokenHash) -> _ {
    let token: Vec<u8> = token.0.to_vec();
    invitations::table.filter(invitations::token.eq(token))
}

/// A passkey to store.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = passkeys)]
pub struct NewPasskeyRow {
    person_id: i64,
    credential: Vec<u8>,
    name: String,
    fixed: Vec<u8>,
    changing: Vec<u8>,
    created_at: Utc,
}

impl NewPasskeyRow {
    /// Returns the row of a passkey of a person.
    pub fn new(person: PersonId, passkey: &NewPasskey) -> Self {
        let Credential { id, fixed, changing } = passkey.credential.clone();
        Self {
            person_id: person.0,
            credential: id.0,
            name: passkey.name.as_str().to_owned(),
            fixed,
            changing,
            created_at: Utc(passkey.created_at),
        }
    }
}

/// A passkey.
#[derive(Queryable, Selectable)]
#[diesel(table_name = passkeys)]
pub struct PasskeyRow {
    id: i64,
    #[diesel(embed)]
    passkey: NewPasskeyRow,
    last_used_at: Option<Utc>,
}

impl PasskeyRow {
    /// Returns the passkey.
    ///
    /// # Errors
    /// None: every row can be read.
    pub fn into_passkey(self) -> Result<Passkey, Unreadable> {
        let NewPasskeyRow { person_id, credential, name, fixed, changing, created_at } =
            self.passkey;
        let credential = Credential { id: CredentialId(credential), fixed, changing };
        let name = PersonName::from_stored(name);
        Ok(Passkey {
            id: PasskeyId(self.id),
            person: PersonId(person_id),
            passkey: NewPasskey { name, credential, created_at: created_at.0 },
            last_used_at: self.last_used_at.map(|at| at.0),
        })
    }
}

/// Selects the passkey of a credential.
#[auto_type(no_type_alias)]
pub fn credential_row(credential: &CredentialId) -> _ {
    let credential: Vec<u8> = credential.0.clone();
    passkeys::table.filter(passkeys::credential.eq(credential))
}

/// Selects the passkey of a credential as it was before a sign-in.
#[auto_type(no_type_alias)]
pub fn unused_credential(before: &Credential) -> _ {
    let credential: Vec<u8> = before.id.0.clone();
    let changing: Vec<u8> = before.changing.clone();
    passkeys::table.filter(passkeys::credential.eq(credential).and(passkeys::changing.eq(changing)))
}

/// Selects the passkeys of people, the oldest first.
#[auto_type(no_type_alias)]
pub fn passkeys_of(people: &[PersonId]) -> _ {
    let owners: OneOf<i64> = OneOf::new("passkeys.person_id", numbers(people));
    passkeys::table.filter(owners).order(passkeys::id)
}

fn numbers(people: &[PersonId]) -> Vec<i64> {
    people.iter().map(|person| person.0).collect()
}

/// The login of a company.
#[derive(Insertable, Queryable, Selectable)]
#[diesel(table_name = identities)]
pub struct IdentityRow {
    issuer: String,
    subject: String,
    /// The person.
    pub person_id: i64,
    created_at: Utc,
}

impl IdentityRow {
    /// Returns the row of an identity of a person.
    pub fn new(person: PersonId, identity: &Identity, at: OffsetDateTime) -> Self {
        let Identity { issuer, subject } = identity.clone();
        Self { issuer, subject, person_id: person.0, created_at: Utc(at) }
    }

    /// Returns the identity.
    ///
    /// # Errors
    /// None: every row can be read.
    pub fn into_identity(self) -> Result<Identity, Unreadable> {
        Ok(Identity { issuer: self.issuer, subject: self.subject })
    }
}

/// Selects an identity.
#[auto_type(no_type_alias)]
pub fn identity_row(identity: &Identity) -> _ {
    let issuer: String = identity.issuer.clone();
    let subject: String = identity.subject.clone();
    identities::table.filter(identities::issuer.eq(issuer).and(identities::subject.eq(subject)))
}

/// Returns the identifiers of the people and of the keys among those who act.
pub fn people_and_keys(doers: &[Doer]) -> (Vec<i64>, Vec<i64>) {
    let (mut people, mut keys) = (Vec::new(), Vec::new());
    for doer in doers {
        match doer {
            Doer::Person(person) => people.push(person.0),
            Doer::Key(key) => keys.push(key.0),
        }
    }
    (people, keys)
}

/// Selects the numbers and the names of people.
#[auto_type(no_type_alias)]
pub fn names_of_people(numbers: Vec<i64>) -> _ {
    let ids: OneOf<i64> = OneOf::new("people.id", numbers);
    people::table.filter(ids).select((people::id, people::name))
}

/// Selects the numbers and the names of keys.
#[auto_type(no_type_alias)]
pub fn names_of_keys(numbers: Vec<i64>) -> _ {
    let ids: OneOf<i64> = OneOf::new("api_keys.id", numbers);
    api_keys::table.filter(ids).select((api_keys::id, api_keys::name))
}

/// Returns whether a person may be invited again or get a passkey.
pub fn is_disabled(person: &Person) -> bool {
    person.state() == PersonState::Disabled
}
