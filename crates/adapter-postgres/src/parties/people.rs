//! People, their invitations and their ways to sign in.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use diesel::{
    dsl::{exists, select},
    prelude::*,
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::Party,
    person::{
        ChangeRights, Credential, CredentialId, Doer, Identity, Invitation, InvitationFault,
        MAX_PASSKEYS, NewInvitation, NewPasskey, NewPerson, Passkey, PasskeyId, Person,
        PersonChange, PersonId, PersonRefusal, TokenHash, check_name, decide_removal, may_invite,
    },
    ports::{NewMethod, PersonError, PersonRepo, StoreError, WhichSessions},
};
use sql_rows::{
    Prepared, Utc,
    api_keys::names_of_valid_keys,
    people::{
        ChangedPerson, ErasedPerson, IdentityRow, InvitationRow, NewInvitationRow, NewPasskeyRow,
        NewPersonRow, PasskeyRow, PersonRow, acceptable_invitations, active_admins, all_people,
        credential_row, doer_of, identity_row, invitation_row, invitations_of, invitations_of_day,
        is_disabled, issued_invitations, names_of_keys, names_of_people, open_invitations,
        passkeys_of, people_and_keys, people_of, person_row, unused_credential, with_logins,
        with_passkeys,
    },
    schema::{identities, invitations, passkeys, people, sessions},
};
use time::OffsetDateTime;

use crate::{
    failure::Failure, locks, parties::sessions::lock_open, statement::columns, store::PostgresStore,
};

/// The outcome of a transaction: a rule may forbid the change, and nothing is written then.
type Decided<T> = Result<T, PersonRefusal>;

#[async_trait]
impl PersonRepo for PostgresStore {
    async fn invite(
        &self,
        person: &NewPerson,
        invitation: &NewInvitation,
    ) -> Result<PersonId, PersonError> {
        let (person, invitation) = (person.clone(), invitation.clone());
        let invite = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            if is_full(connection, person.party, None, &invitation).await? {
                return Ok(Err(PersonRefusal::TooManyInvitations));
            }
            if invitation.issued_by.is_some() {
                let people = side(connection, person.party).await?;
                let keys =
                    names_of_keys_of(connection, person.party, invitation.created_at).await?;
                if let Err(refusal) = check_name(&person.name, &people, &keys) {
                    return Ok(Err(refusal));
                }
            }
            add(connection, &person, &invitation).await.map(Ok)
        };
        decided(self.transaction(invite).await)
    }

    async fn invite_first(
        &self,
        person: &NewPerson,
        invitation: &NewInvitation,
    ) -> Result<Option<PersonId>, StoreError> {
        let (person, invitation) = (person.clone(), invitation.clone());
        let invite = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let any = select(exists(people::table.select(people::id)));
            if any.get_result(connection).await? {
                return Ok(None);
            }
            add(connection, &person, &invitation).await.map(Some)
        };
        self.transaction(invite).await
    }

    async fn invite_again(
        &self,
        id: PersonId,
        rights: ChangeRights,
        invitation: &NewInvitation,
    ) -> Result<Person, PersonError> {
        let invitation = invitation.clone();
        let invite = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let Some(person) = find(connection, id, rights).await? else {
                return Ok(Err(PersonRefusal::Unknown));
            };
            if is_disabled(&person) {
                return Ok(Err(PersonRefusal::Disabled));
            }
            let party = person.person.party;
            if is_full(connection, party, Some(id), &invitation).await? {
                return Ok(Err(PersonRefusal::TooManyInvitations));
            }
            withdraw(connection, id, invitation.created_at).await?;
            diesel::insert_into(invitations::table)
                .values(NewInvitationRow::new(id, &invitation))
                .execute(connection)
                .await?;
            Ok(Ok(person))
        };
        decided(self.transaction(invite).await)
    }

    async fn withdraw_invitations(
        &self,
        id: PersonId,
        rights: ChangeRights,
        at: OffsetDateTime,
    ) -> Result<Person, PersonError> {
        let withdraw_all = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let Some(person) = find(connection, id, rights).await? else {
                return Ok(Err(PersonRefusal::Unknown));
            };
            withdraw(connection, id, at).await?;
            Ok(Ok(person))
        };
        decided(self.transaction(withdraw_all).await)
    }

    async fn invitation(
        &self,
        token: TokenHash,
    ) -> Result<Option<(Invitation, Person)>, StoreError> {
        let find = async move |connection: &mut AsyncPgConnection| invited(connection, token).await;
        self.read(find).await
    }

    async fn accept(
        &self,
        token: TokenHash,
        method: &NewMethod,
        at: OffsetDateTime,
    ) -> Result<Person, PersonError> {
        let method = method.clone();
        let accept = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let Some((invitation, person)) = invited(connection, token).await? else {
                return Ok(Err(InvitationFault::Unknown.into()));
            };
            if let Err(fault) = invitation.check(&person, at) {
                return Ok(Err(fault.into()));
            }
            // Another instance may have let the issuer act for some seconds more.
            if let Some(issuer) = invitation.invitation.issued_by {
                let issuer = find(connection, issuer, ChangeRights::OPERATOR).await?;
                if !issuer.is_some_and(|issuer| issuer.is_active_admin()) {
                    return Ok(Err(InvitationFault::Withdrawn.into()));
                }
            }
            let id = person.id;
            let added = match &method {
                NewMethod::Passkey(passkey) => {
                    add_passkey(connection, id, passkey).await?.map(drop)
                }
                NewMethod::Login(identity) => add_identity(connection, id, identity, at).await?,
            };
            if let Err(refusal) = added {
                return Ok(Err(refusal));
            }
            diesel::update(invitation_row(token))
                .set(invitations::used_at.eq(Some(Utc(at))))
                .execute(connection)
                .await?;
            let accepted_at = person.accepted_at.unwrap_or(at);
            diesel::update(people::table.find(id.0))
                .set(people::accepted_at.eq(Some(Utc(accepted_at))))
                .execute(connection)
                .await?;
            Ok(Ok(Person { accepted_at: Some(accepted_at), ..person }))
        };
        decided(self.transaction(accept).await)
    }

    async fn add_passkey(
        &self,
        id: PersonId,
        passkey: &NewPasskey,
    ) -> Result<PasskeyId, PersonError> {
        let passkey = passkey.clone();
        let add = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            match find(connection, id, ChangeRights::OPERATOR).await? {
                None => Ok(Err(PersonRefusal::Unknown)),
                Some(person) if is_disabled(&person) => Ok(Err(PersonRefusal::Disabled)),
                Some(_) => add_passkey(connection, id, &passkey).await,
            }
        };
        decided(self.transaction(add).await)
    }

    async fn find(&self, id: PersonId) -> Result<Option<Person>, StoreError> {
        Ok(self.select(people::table.find(id.0), PersonRow::into_person).await?.pop())
    }

    async fn list(&self, party: Option<Party>) -> Result<Vec<Person>, StoreError> {
        match party {
            Some(party) => self.select(people_of(party), PersonRow::into_person).await,
            None => self.select(all_people(), PersonRow::into_person).await,
        }
    }

    async fn open_invitations(
        &self,
        people: &[PersonId],
        at: OffsetDateTime,
    ) -> Result<Vec<Invitation>, StoreError> {
        self.select(acceptable_invitations(people, at), InvitationRow::into_invitation).await
    }

    async fn passkey(
        &self,
        credential: &CredentialId,
    ) -> Result<Option<(Passkey, Person)>, StoreError> {
        let found = self.select(credential_row(credential), PasskeyRow::into_passkey).await?.pop();
        let Some(passkey) = found else { return Ok(None) };
        Ok(PersonRepo::find(self, passkey.person).await?.map(|person| (passkey, person)))
    }

    async fn passkeys_of(&self, people: &[PersonId]) -> Result<Vec<Passkey>, StoreError> {
        self.select(passkeys_of(people), PasskeyRow::into_passkey).await
    }

    async fn identities_of(&self, id: PersonId) -> Result<Vec<Identity>, StoreError> {
        let own = identities::table.filter(identities::person_id.eq(id.0));
        let own = own.order((identities::issuer, identities::subject));
        self.select(own, IdentityRow::into_identity).await
    }

    async fn use_passkey(
        &self,
        before: &Credential,
        used: &[u8],
        at: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let changed =
            (passkeys::changing.eq(used.to_vec()), passkeys::last_used_at.eq(Some(Utc(at))));
        let used = diesel::update(unused_credential(before)).set(changed);
        Ok(self.execute(used).await? > 0)
    }

    async fn remove_passkey(
        &self,
        id: PersonId,
        passkey: PasskeyId,
        rights: ChangeRights,
        issuers: &[String],
    ) -> Result<(), PersonError> {
        let issuers = issuers.to_vec();
        let remove = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let Some(person) = find(connection, id, rights).await? else {
                return Ok(Err(PersonRefusal::Unknown));
            };
            let own = || passkeys::table.filter(passkeys::person_id.eq(id.0));
            let all: Vec<i64> = own().select(passkeys::id).get_results(connection).await?;
            if !all.contains(&passkey.0) {
                return Ok(Err(PersonRefusal::Unknown));
            }
            let logins = with_logins(vec![id.0], issuers.clone());
            let logins: Vec<i64> = logins.get_results(connection).await?;
            let others = others_of(connection, &person).await?;
            let able = able(connection, active_admins(&others), &issuers).await?;
            let ways_left = all.len() + logins.len() - 1;
            if let Err(refusal) = decide_removal(&person, ways_left, able, rights) {
                return Ok(Err(refusal));
            }
            diesel::delete(own().filter(passkeys::id.eq(passkey.0))).execute(connection).await?;
            Ok(Ok(()))
        };
        decided(self.transaction(remove).await)
    }

    async fn by_identity(&self, identity: &Identity) -> Result<Option<Person>, StoreError> {
        let identity = identity.clone();
        let find = async move |connection: &mut AsyncPgConnection| {
            let found = identity_row(&identity).select(identities::person_id);
            let id: Option<i64> = found.get_result(connection).await.optional()?;
            let Some(id) = id else { return Ok(None) };
            let row = people::table.find(id).select(columns::<PersonRow>());
            let row = row.get_result(connection).await.optional()?;
            Ok(row.map(PersonRow::into_person).transpose()?)
        };
        self.read(find).await
    }

    async fn names_of(&self, doers: &[Doer]) -> Result<BTreeMap<Doer, String>, StoreError> {
        let (of_people, of_keys) = people_and_keys(doers);
        let read = async move |connection: &mut AsyncPgConnection| {
            let mut all = BTreeMap::new();
            if !of_people.is_empty() {
                let names = Prepared(names_of_people(of_people));
                let names: Vec<(i64, String)> = names.get_results(connection).await?;
                all.extend(names.into_iter().map(|(id, name)| (doer_of(-id), name)));
            }
            if !of_keys.is_empty() {
                let names = Prepared(names_of_keys(of_keys));
                let names: Vec<(i64, String)> = names.get_results(connection).await?;
                all.extend(names.into_iter().map(|(id, name)| (doer_of(id), name)));
            }
            Ok(all)
        };
        self.read_orders(read).await
    }

    async fn change(
        &self,
        id: PersonId,
        rights: ChangeRights,
        change: &PersonChange,
        issuers: &[String],
        at: OffsetDateTime,
    ) -> Result<Person, PersonError> {
        let (change, issuers) = (change.clone(), issuers.to_vec());
        let decide = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let Some(person) = find(connection, id, rights).await? else {
                return Ok(Err(PersonRefusal::Unknown));
            };
            let others = others_of(connection, &person).await?;
            let able = able(connection, active_admins(&others), &issuers).await?;
            let keys = names_of_keys_of(connection, person.person.party, at).await?;
            let is_by_operator = rights.is_operator();
            let decided = change.decide(&person, &others, &keys, able, is_by_operator, at);
            let changed = match decided {
                Ok(changed) => changed,
                Err(refusal) => return Ok(Err(refusal)),
            };
            diesel::update(people::table.find(id.0))
                .set(ChangedPerson::from(&changed))
                .execute(connection)
                .await?;
            if !changed.is_active_admin() {
                withdraw_issued(connection, id, at).await?;
            }
            if changed.disabled_at.is_some() {
                withdraw(connection, id, at).await?;
                lock_open(connection, WhichSessions::OfPerson(id)).await?;
                let open = sessions::table.filter(sessions::person_id.eq(id.0));
                diesel::update(open.filter(sessions::ended_at.is_null()))
                    .set(sessions::ended_at.eq(Some(Utc(at))))
                    .execute(connection)
                    .await?;
            }
            Ok(Ok(changed))
        };
        decided(self.transaction(decide).await)
    }

    async fn erase(&self, id: PersonId, at: OffsetDateTime) -> Result<bool, StoreError> {
        let erase = async move |connection: &mut AsyncPgConnection| {
            lock_people(connection).await?;
            let erased = diesel::update(person_row(id)).set(ErasedPerson::at(at));
            if erased.execute(connection).await? == 0 {
                return Ok(false);
            }
            withdraw_issued(connection, id, at).await?;
            let of_person = invitations::table.filter(invitations::person_id.eq(id.0));
            diesel::delete(of_person).execute(connection).await?;
            let of_person = passkeys::table.filter(passkeys::person_id.eq(id.0));
            diesel::delete(of_person).execute(connection).await?;
            let of_person = identities::table.filter(identities::person_id.eq(id.0));
            diesel::delete(of_person).execute(connection).await?;
            lock_open(connection, WhichSessions::OfPerson(id)).await?;
            let of_person = sessions::table.filter(sessions::person_id.eq(id.0));
            diesel::delete(of_person).execute(connection).await?;
            Ok(true)
        };
        self.transaction(erase).await
    }
}

fn decided<T>(found: Result<Decided<T>, StoreError>) -> Result<T, PersonError> {
    Ok(found??)
}

/// Makes changes of people wait for each other. They are rare, and the last admin and each invitation must be
/// decided one after the other.
pub(super) async fn lock_people(connection: &mut AsyncPgConnection) -> Result<(), Failure> {
    Ok(locks::lock_name(connection, "people").await?)
}

async fn add(
    connection: &mut AsyncPgConnection,
    person: &NewPerson,
    invitation: &NewInvitation,
) -> Result<PersonId, Failure> {
    let added =
        diesel::insert_into(people::table).values(NewPersonRow::from(person)).returning(people::id);
    let id = PersonId(added.get_result(connection).await?);
    diesel::insert_into(invitations::table)
        .values(NewInvitationRow::new(id, invitation))
        .execute(connection)
        .await?;
    Ok(id)
}

/// Returns whether the side has as many open invitations as its admins may issue, or the admin has issued as many as in
/// a day. An open one of the same person is replaced.
async fn is_full(
    connection: &mut AsyncPgConnection,
    party: Party,
    person: Option<PersonId>,
    invitation: &NewInvitation,
) -> Result<bool, Failure> {
    let (Some(admin), now) = (invitation.issued_by, invitation.created_at) else {
        return Ok(false);
    };
    let of_day: i64 = invitations_of_day(admin, now).count().get_result(connection).await?;
    // No person has the number 0.
    let others = invitations::person_id.ne(person.map_or(0, |person| person.0));
    let open = invitations_of(party, now).filter(others);
    let open: i64 = open.count().get_result(connection).await?;
    Ok(!may_invite(open.unsigned_abs(), of_day.unsigned_abs()))
}

/// Returns a person who is not erased, if one with these rights may change them. Locks the row: a session that begins
/// meanwhile waits.
async fn find(
    connection: &mut AsyncPgConnection,
    id: PersonId,
    rights: ChangeRights,
) -> Result<Option<Person>, Failure> {
    locks::lock(connection, "people", &[id.0]).await?;
    let row = person_row(id).select(columns::<PersonRow>());
    let row = row.get_result(connection).await.optional()?;
    let person = row.map(PersonRow::into_person).transpose()?;
    Ok(person.filter(|person| rights.party.is_none_or(|party| party == person.person.party)))
}

/// Returns the people of a side who are not erased.
pub(super) async fn side(
    connection: &mut AsyncPgConnection,
    party: Party,
) -> Result<Vec<Person>, Failure> {
    let side = people_of(party).select(columns::<PersonRow>());
    let side: Vec<PersonRow> = side.get_results(connection).await?;
    Ok(side.into_iter().map(PersonRow::into_person).collect::<Result<Vec<_>, _>>()?)
}

/// Returns the names of the keys of a side that are valid at an instant.
async fn names_of_keys_of(
    connection: &mut AsyncPgConnection,
    party: Party,
    at: OffsetDateTime,
) -> Result<Vec<String>, Failure> {
    Ok(names_of_valid_keys(party, at).get_results(connection).await?)
}

/// Returns the others of the side of a person.
async fn others_of(
    connection: &mut AsyncPgConnection,
    person: &Person,
) -> Result<Vec<Person>, Failure> {
    let mut others = side(connection, person.person.party).await?;
    others.retain(|other| other.id != person.id);
    Ok(others)
}

/// Returns how many of these people can sign in: by a passkey, or by a login of these issuers.
async fn able(
    connection: &mut AsyncPgConnection,
    people: Vec<i64>,
    issuers: &[String],
) -> Result<usize, Failure> {
    let by_passkey: Vec<i64> = with_passkeys(people.clone()).get_results(connection).await?;
    let by_login = with_logins(people, issuers.to_vec());
    let by_login: Vec<i64> = by_login.get_results(connection).await?;
    Ok(by_passkey.into_iter().chain(by_login).collect::<BTreeSet<_>>().len())
}

async fn invited(
    connection: &mut AsyncPgConnection,
    token: TokenHash,
) -> Result<Option<(Invitation, Person)>, Failure> {
    let row = invitation_row(token).select(columns::<InvitationRow>());
    let row = row.get_result(connection).await.optional()?;
    let Some(invitation) = row.map(InvitationRow::into_invitation).transpose()? else {
        return Ok(None);
    };
    let row = people::table.find(invitation.person.0).select(columns::<PersonRow>());
    let person = row.get_result(connection).await?.into_person()?;
    Ok(Some((invitation, person)))
}

async fn withdraw(
    connection: &mut AsyncPgConnection,
    id: PersonId,
    at: OffsetDateTime,
) -> Result<(), Failure> {
    diesel::update(open_invitations(id))
        .set(invitations::withdrawn_at.eq(Some(Utc(at))))
        .execute(connection)
        .await?;
    Ok(())
}

/// Withdraws what an admin who leaves has issued: the links may be in their hands.
async fn withdraw_issued(
    connection: &mut AsyncPgConnection,
    admin: PersonId,
    at: OffsetDateTime,
) -> Result<(), Failure> {
    diesel::update(issued_invitations(admin))
        .set(invitations::withdrawn_at.eq(Some(Utc(at))))
        .execute(connection)
        .await?;
    Ok(())
}

async fn add_passkey(
    connection: &mut AsyncPgConnection,
    id: PersonId,
    passkey: &NewPasskey,
) -> Result<Decided<PasskeyId>, Failure> {
    let own = passkeys::table.filter(passkeys::person_id.eq(id.0));
    let own: i64 = own.count().get_result(connection).await?;
    if usize::try_from(own).is_ok_and(|own| own >= MAX_PASSKEYS) {
        return Ok(Err(PersonRefusal::TooManyPasskeys));
    }
    let added = diesel::insert_into(passkeys::table)
        .values(NewPasskeyRow::new(id, passkey))
        .on_conflict_do_nothing()
        .returning(passkeys::id);
    let added: Option<i64> = added.get_result(connection).await.optional()?;
    Ok(added.map(PasskeyId).ok_or(PersonRefusal::MethodInUse))
}

/// A person may accept another invitation by the login that they have.
async fn add_identity(
    connection: &mut AsyncPgConnection,
    id: PersonId,
    identity: &Identity,
    at: OffsetDateTime,
) -> Result<Decided<()>, Failure> {
    diesel::insert_into(identities::table)
        .values(IdentityRow::new(id, identity, at))
        .on_conflict_do_nothing()
        .execute(connection)
        .await?;
    let of: i64 =
        identity_row(identity).select(identities::person_id).get_result(connection).await?;
    Ok(if of == id.0 { Ok(()) } else { Err(PersonRefusal::MethodInUse) })
}
