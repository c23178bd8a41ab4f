//! The contract of `PersonRepo`.

use std::collections::BTreeMap;

use domain::{
    api_key::{ClientId, NewApiKey, Party},
    order::SigningServiceId,
    person::{
        ChangeRights, Doer, FORMER_USER, Identity, InvitationFault, MAX_INVITATIONS_A_DAY,
        MAX_OPEN_INVITATIONS, MAX_PASSKEYS, NewInvitation, NewPerson, Person, PersonChange,
        PersonId, PersonName, PersonRefusal, PersonState, Role, TokenHash,
    },
    ports::{NewMethod, PersonError, WhichSessions},
};
use time::{Duration, OffsetDateTime};

use crate::samples::{
    API_KEY, CLIENT, MICROSECOND, NOW, Storage, api_key, at_once, by_passkey, new_invitation,
    new_passkey, new_person, new_session, token,
};

/// The rights of an admin of the sample client.
const ADMIN: ChangeRights =
    ChangeRights { party: Some(Party::Client(CLIENT)), may_leave_none: false };

const OTHER_SIDE: ChangeRights =
    ChangeRights { party: Some(Party::Client(ClientId(CLIENT.0 + 1))), may_leave_none: false };

fn refusal<T: std::fmt::Debug>(outcome: Result<T, PersonError>) -> PersonRefusal {
    match outcome {
        Err(PersonError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

async fn invite(storage: &Storage, role: Role) -> (PersonId, TokenHash) {
    let invitation = new_invitation();
    let id = storage.people.invite(&new_person(role), &invitation).await.unwrap();
    (id, invitation.token)
}

/// Returns an active person.
pub(super) async fn active(storage: &Storage, role: Role) -> Person {
    let (_, token) = invite(storage, role).await;
    storage.people.accept(token, &by_passkey(), NOW).await.unwrap()
}

async fn find(storage: &Storage, id: PersonId) -> Person {
    storage.people.find(id).await.unwrap().unwrap()
}

fn login(subject: &str) -> Identity {
    let issuer = "https://login.example/é".to_owned();
    Identity { issuer, subject: subject.to_owned() }
}

/// With every field, with no optional one, and of both sides.
pub async fn person_is_found_as_invited(storage: &Storage) {
    let party = Party::Service(SigningServiceId(i64::MAX));
    let sparse = NewPerson { party, email: None, ..new_person(Role::Member) };
    for (person, issued_by) in [(new_person(Role::Admin), Some(PersonId(7))), (sparse, None)] {
        let invitation = NewInvitation { issued_by, ..new_invitation() };
        let id = storage.people.invite(&person, &invitation).await.unwrap();
        assert!(id.0 > 0);
        let found = find(storage, id).await;
        assert_eq!(found.person, person);
        assert_eq!((found.state(), found.last_seen_at), (PersonState::Invited, None));
        let (stored, of) = storage.people.invitation(invitation.token).await.unwrap().unwrap();
        assert_eq!((stored.invitation, stored.person, of), (invitation, id, found));
    }
    assert_eq!(storage.people.find(PersonId(999_999)).await.unwrap(), None);
    assert_eq!(storage.people.invitation(token()).await.unwrap(), None);
}

/// Erased people are in no list.
pub async fn people_are_listed_by_side(storage: &Storage) {
    let other = NewPerson { party: OTHER_SIDE.party.unwrap(), ..new_person(Role::Member) };
    let (first, _) = invite(storage, Role::Admin).await;
    let second = storage.people.invite(&other, &new_invitation()).await.unwrap();
    let (third, _) = invite(storage, Role::Member).await;
    let (erased, _) = invite(storage, Role::Member).await;
    assert!(storage.people.erase(erased, NOW).await.unwrap());
    for (party, expected) in [
        (ADMIN.party, vec![first, third]),
        (OTHER_SIDE.party, vec![second]),
        (None, vec![first, second, third]),
        (Some(Party::Service(SigningServiceId(CLIENT.0))), vec![]),
    ] {
        let listed = storage.people.list(party).await.unwrap();
        assert_eq!(listed.iter().map(|person| person.id).collect::<Vec<_>>(), expected);
    }
}

/// Those that are used, withdrawn or expired are not.
pub async fn open_invitations_are_listed(storage: &Storage) {
    let (used, of_used) = invite(storage, Role::Member).await;
    storage.people.accept(of_used, &by_passkey(), NOW).await.unwrap();
    let (withdrawn, _) = invite(storage, Role::Member).await;
    storage.people.withdraw_invitations(withdrawn, ADMIN, NOW).await.unwrap();
    let ((open, token), (other, _)) =
        (invite(storage, Role::Member).await, invite(storage, Role::Member).await);
    let tokens = async |people: &[PersonId], at| {
        let open = storage.people.open_invitations(people, at).await.unwrap();
        open.iter().map(|it| (it.person, it.invitation.token)).collect::<Vec<_>>()
    };
    let end = new_invitation().expires_at;
    assert_eq!(tokens(&[used, withdrawn, open], end - MICROSECOND).await, [(open, token)]);
    assert_eq!(tokens(&[open, other], end - MICROSECOND).await.len(), 2);
    assert_eq!(tokens(&[open], end).await, []);
    assert_eq!(tokens(&[], NOW).await, []);
}

/// Of any number of concurrent calls, one invites.
pub async fn first_person_is_invited_once(storage: &Storage) {
    let people =
        (0..8).map(|_| {
            let people = storage.people.clone();
            async move {
                people.invite_first(&new_person(Role::Admin), &new_invitation()).await.unwrap()
            }
        });
    let invited: Vec<_> = at_once(people).await.into_iter().flatten().collect();
    assert_eq!(invited.len(), 1);
    // Not again, whatever became of the first.
    assert!(storage.people.erase(invited[0], NOW).await.unwrap());
    let again = storage.people.invite_first(&new_person(Role::Admin), &new_invitation()).await;
    assert_eq!(again.unwrap(), None);
}

/// However many use it at once.
pub async fn invitation_is_accepted_once(storage: &Storage) {
    let (id, token) = invite(storage, Role::Member).await;
    let uses = (0..8).map(|_| {
        let people = storage.people.clone();
        async move { people.accept(token, &by_passkey(), NOW + MICROSECOND).await }
    });
    let (accepted, refused): (Vec<_>, Vec<_>) =
        at_once(uses).await.into_iter().partition(Result::is_ok);
    let [accepted] = <[_; 1]>::try_from(accepted).unwrap();
    let accepted = accepted.unwrap();
    assert_eq!((accepted.id, accepted.state()), (id, PersonState::Active));
    assert_eq!(accepted.accepted_at, Some(NOW + MICROSECOND));
    assert_eq!(find(storage, id).await, accepted);
    for outcome in refused {
        assert_eq!(refusal(outcome), InvitationFault::Used.into());
    }
    // The others have left nothing.
    assert_eq!(storage.people.passkeys_of(&[id]).await.unwrap().len(), 1);
}

/// It tells why.
pub async fn other_invitations_are_refused(storage: &Storage) {
    let accept = async |token, at: OffsetDateTime| {
        refusal(storage.people.accept(token, &by_passkey(), at).await)
    };
    assert_eq!(accept(token(), NOW).await, InvitationFault::Unknown.into());
    let (id, invitation) = invite(storage, Role::Member).await;
    assert_eq!(accept(invitation, NOW + Duration::days(7)).await, InvitationFault::Expired.into());
    storage.people.withdraw_invitations(id, ADMIN, NOW).await.unwrap();
    assert_eq!(accept(invitation, NOW).await, InvitationFault::Withdrawn.into());
    let again = new_invitation();
    storage.people.invite_again(id, ADMIN, &again).await.unwrap();
    let newest = new_invitation();
    storage.people.invite_again(id, ADMIN, &newest).await.unwrap();
    assert_eq!(accept(again.token, NOW).await, InvitationFault::Withdrawn.into());
    storage.people.accept(newest.token, &by_passkey(), NOW).await.unwrap();
    let disabled = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
    let (other, of_disabled) = invite(storage, Role::Member).await;
    storage.people.change(other, ADMIN, &disabled, &[], NOW).await.unwrap();
    assert_eq!(accept(of_disabled, NOW).await, InvitationFault::Disabled.into());
    let outcome = storage.people.invite_again(other, ADMIN, &new_invitation()).await;
    assert_eq!(refusal(outcome), PersonRefusal::Disabled);
    // Enabling brings none back.
    let enabled = PersonChange { is_disabled: Some(false), ..PersonChange::default() };
    storage.people.change(other, ADMIN, &enabled, &[], NOW).await.unwrap();
    assert_eq!(accept(of_disabled, NOW).await, InvitationFault::Withdrawn.into());
}

/// An admin who is disabled, demoted or erased may have kept the links. Those of others stay, and so does everything
/// after another change.
pub async fn invitations_end_with_the_rights_of_their_issuer(storage: &Storage) {
    active(storage, Role::Admin).await;
    let none = PersonChange::default();
    let disabled = PersonChange { is_disabled: Some(true), ..none.clone() };
    let demoted = PersonChange { role: Some(Role::Member), ..none.clone() };
    let renamed =
        PersonChange { name: Some(PersonName::from_stored("Ann Roe".to_owned())), ..none };
    let invited = active(storage, Role::Admin).await.id;
    for (change, ends) in
        [(Some(disabled), true), (Some(demoted), true), (None, true), (Some(renamed), false)]
    {
        let issuer = active(storage, Role::Admin).await.id;
        let again = NewInvitation { issued_by: Some(issuer), ..new_invitation() };
        storage.people.invite_again(invited, ADMIN, &again).await.unwrap();
        let first = NewInvitation { issued_by: Some(issuer), ..new_invitation() };
        storage.people.invite(&new_person(Role::Member), &first).await.unwrap();
        let (_, of_operator) = invite(storage, Role::Member).await;
        match &change {
            Some(change) => {
                drop(storage.people.change(issuer, ADMIN, change, &[], NOW).await.unwrap());
            }
            None => assert!(storage.people.erase(issuer, NOW).await.unwrap()),
        }
        // Issued a moment later, by a session that an instance has cached.
        let late = NewInvitation { issued_by: Some(issuer), ..new_invitation() };
        storage.people.invite(&new_person(Role::Member), &late).await.unwrap();
        for token in [again.token, first.token, late.token] {
            let accepted = storage.people.accept(token, &by_passkey(), NOW).await;
            if ends {
                assert_eq!(refusal(accepted), InvitationFault::Withdrawn.into(), "{change:?}");
            } else {
                accepted.unwrap();
            }
        }
        storage.people.accept(of_operator, &by_passkey(), NOW).await.unwrap();
    }
}

/// For its admins. One that is withdrawn or expired makes room, and another one of a person takes the place of theirs.
pub async fn open_invitations_of_a_side_are_limited(storage: &Storage) {
    let admin = active(storage, Role::Admin).await.id;
    let issued = |at| {
        let invitation = NewInvitation::issued(token(), at);
        NewInvitation { issued_by: Some(admin), ..invitation }
    };
    let invite_at = async |party, at| {
        let person = NewPerson { party, ..new_person(Role::Member) };
        storage.people.invite(&person, &issued(at)).await
    };
    let own = Party::Client(CLIENT);
    let first = invite_at(own, NOW).await.unwrap();
    for _ in 1..MAX_OPEN_INVITATIONS {
        invite_at(own, NOW).await.unwrap();
    }
    assert_eq!(refusal(invite_at(own, NOW).await), PersonRefusal::TooManyInvitations);
    let again = storage.people.invite_again(admin, ADMIN, &issued(NOW)).await;
    assert_eq!(refusal(again), PersonRefusal::TooManyInvitations);
    storage.people.invite_again(first, ADMIN, &issued(NOW)).await.unwrap();
    invite_at(OTHER_SIDE.party.unwrap(), NOW).await.unwrap();
    storage.people.withdraw_invitations(first, ADMIN, NOW).await.unwrap();
    invite_at(own, NOW).await.unwrap();
    assert_eq!(refusal(invite_at(own, NOW).await), PersonRefusal::TooManyInvitations);
    // An operator helps, and time does.
    invite(storage, Role::Member).await;
    invite_at(own, NOW + Duration::days(7)).await.unwrap();
}

/// Also again for one person: each may be a mail. Operators are not counted.
pub async fn admin_issues_few_invitations_a_day(storage: &Storage) {
    let admin = active(storage, Role::Admin).await.id;
    let (person, _) = invite(storage, Role::Member).await;
    let again = async |at| {
        let invitation = NewInvitation::issued(token(), at);
        let invitation = NewInvitation { issued_by: Some(admin), ..invitation };
        storage.people.invite_again(person, ADMIN, &invitation).await
    };
    for _ in 0..MAX_INVITATIONS_A_DAY {
        again(NOW).await.unwrap();
    }
    assert_eq!(refusal(again(NOW).await), PersonRefusal::TooManyInvitations);
    storage.people.invite_again(person, ADMIN, &new_invitation()).await.unwrap();
    again(NOW + Duration::DAY).await.unwrap();
}

/// The invitation is not used up then.
pub async fn credential_and_identity_belong_to_one_person(storage: &Storage) {
    let (first, second) =
        (invite(storage, Role::Member).await, invite(storage, Role::Member).await);
    let passkey = by_passkey();
    storage.people.accept(first.1, &passkey, NOW).await.unwrap();
    let outcome = storage.people.accept(second.1, &passkey, NOW).await;
    assert_eq!(refusal(outcome), PersonRefusal::MethodInUse);
    let login = NewMethod::Login(login("7"));
    storage.people.accept(second.1, &login, NOW).await.unwrap();
    let (_, third) = invite(storage, Role::Member).await;
    assert_eq!(
        refusal(storage.people.accept(third, &login, NOW).await),
        PersonRefusal::MethodInUse
    );
    // The same person may accept another invitation by the same login.
    let again = new_invitation();
    storage.people.invite_again(second.0, ADMIN, &again).await.unwrap();
    storage.people.accept(again.token, &login, NOW).await.unwrap();
}

/// Issuer and subject, letter by letter.
pub async fn identity_is_issuer_and_subject(storage: &Storage) {
    let (id, token) = invite(storage, Role::Member).await;
    let identity = login("Subject-7");
    storage.people.accept(token, &NewMethod::Login(identity.clone()), NOW).await.unwrap();
    let of = async |identity: &Identity| {
        storage.people.by_identity(identity).await.unwrap().map(|person| person.id)
    };
    assert_eq!(of(&identity).await, Some(id));
    let issuer = "https://login.example/e".to_owned();
    for other in [login("subject-7"), login("Subject-7 "), Identity { issuer, ..identity.clone() }]
    {
        assert_eq!(of(&other).await, None);
    }
    assert_eq!(storage.people.identities_of(id).await.unwrap(), [identity]);
}

/// With its person. A person has up to the greatest number.
pub async fn passkey_is_found_by_its_credential(storage: &Storage) {
    let person = active(storage, Role::Member).await;
    let passkey = new_passkey();
    let id = storage.people.add_passkey(person.id, &passkey).await.unwrap();
    let (found, of) = storage.people.passkey(&passkey.credential.id).await.unwrap().unwrap();
    assert_eq!((found.id, &found.passkey, found.last_used_at), (id, &passkey, None));
    assert_eq!(of, person);
    assert!(storage.people.passkey(&new_passkey().credential.id).await.unwrap().is_none());
    for number in 2..=MAX_PASSKEYS {
        let added = storage.people.add_passkey(person.id, &new_passkey()).await;
        assert_eq!(added.is_ok(), number < MAX_PASSKEYS, "{number}");
    }
    let outcome = storage.people.add_passkey(PersonId(999_999), &new_passkey()).await;
    assert_eq!(refusal(outcome), PersonRefusal::Unknown);
}

/// Of two sign-ins at once with one state, one counts.
pub async fn sign_in_replaces_the_state_of_its_passkey_once(storage: &Storage) {
    let person = active(storage, Role::Member).await;
    let passkey = new_passkey();
    storage.people.add_passkey(person.id, &passkey).await.unwrap();
    let uses = (1..=8).map(|counter: u8| {
        let (people, before) = (storage.people.clone(), passkey.credential.clone());
        async move { people.use_passkey(&before, &[counter], NOW).await.unwrap() }
    });
    let counted = at_once(uses).await.into_iter().filter(|counts| *counts).count();
    assert_eq!(counted, 1);
    let (found, _) = storage.people.passkey(&passkey.credential.id).await.unwrap().unwrap();
    assert_eq!(found.last_used_at, Some(NOW));
    assert_ne!(found.passkey.credential.changing, passkey.credential.changing);
}

/// Unless the rights permit its removal. A login counts as long as the operator has set its issuer.
pub async fn last_way_to_sign_in_stays(storage: &Storage) {
    let person = active(storage, Role::Member).await;
    let first = storage.people.passkeys_of(&[person.id]).await.unwrap()[0].id;
    let issuers = [login("").issuer, "https://other.example".to_owned()];
    let remove = async |passkey, rights| {
        storage.people.remove_passkey(person.id, passkey, rights, &issuers).await
    };
    assert_eq!(refusal(remove(first, ADMIN).await), PersonRefusal::LastMethod);
    let second = storage.people.add_passkey(person.id, &new_passkey()).await.unwrap();
    assert_eq!(refusal(remove(second, OTHER_SIDE).await), PersonRefusal::Unknown);
    remove(second, ADMIN).await.unwrap();
    assert_eq!(refusal(remove(second, ADMIN).await), PersonRefusal::Unknown);
    remove(first, ChangeRights { may_leave_none: true, ..ADMIN }).await.unwrap();
    assert_eq!(storage.people.passkeys_of(&[person.id]).await.unwrap(), []);

    let person = active(storage, Role::Member).await;
    let only = storage.people.passkeys_of(&[person.id]).await.unwrap()[0].id;
    let again = new_invitation();
    storage.people.invite_again(person.id, ADMIN, &again).await.unwrap();
    storage.people.accept(again.token, &NewMethod::Login(login("8")), NOW).await.unwrap();
    for others in [&[][..], &issuers[1..]] {
        let removed = storage.people.remove_passkey(person.id, only, ADMIN, others).await;
        assert_eq!(refusal(removed), PersonRefusal::LastMethod, "{others:?}");
    }
    storage.people.remove_passkey(person.id, only, ADMIN, &issuers).await.unwrap();
}

/// However many remove the last ways to sign in of each other at once, or their own. An admin who has none, or only a
/// login that is not set any more, is no admin who stays.
pub async fn one_admin_stays_who_can_sign_in(storage: &Storage) {
    let mut admins = Vec::new();
    for _ in 0..4 {
        let id = active(storage, Role::Admin).await.id;
        admins.push((id, storage.people.passkeys_of(&[id]).await.unwrap()[0].id));
    }
    let of_others = ChangeRights { may_leave_none: true, ..ADMIN };
    let removals = admins.clone().into_iter().map(|(id, passkey)| {
        let people = storage.people.clone();
        async move { people.remove_passkey(id, passkey, of_others, &[]).await }
    });
    let refused: Vec<_> = at_once(removals).await.into_iter().filter(Result::is_err).collect();
    let [refused] = <[_; 1]>::try_from(refused).unwrap();
    assert_eq!(refusal(refused), PersonRefusal::LastAdmin);
    let ids: Vec<_> = admins.iter().map(|(id, _)| *id).collect();
    let [left] = &storage.people.passkeys_of(&ids).await.unwrap()[..] else { panic!("{ids:?}") };
    let (left, passkey) = (left.person, left.id);
    let other = *ids.iter().find(|id| **id != left).unwrap();

    let again = new_invitation();
    storage.people.invite_again(other, ADMIN, &again).await.unwrap();
    storage.people.accept(again.token, &NewMethod::Login(login("9")), NOW).await.unwrap();
    let demoted = PersonChange { role: Some(Role::Member), ..PersonChange::default() };
    let leave = storage.people.change(left, ADMIN, &demoted, &[], NOW).await;
    assert_eq!(refusal(leave), PersonRefusal::LastAdmin);
    let removed = storage.people.remove_passkey(left, passkey, of_others, &[]).await;
    assert_eq!(refusal(removed), PersonRefusal::LastAdmin);
    let issuers = [login("9").issuer];
    storage.people.change(left, ADMIN, &demoted, &issuers, NOW).await.unwrap();
}

/// Of two passkeys that are removed at once.
pub async fn one_of_the_own_ways_to_sign_in_stays(storage: &Storage) {
    for _ in 0..4 {
        let id = active(storage, Role::Member).await.id;
        storage.people.add_passkey(id, &new_passkey()).await.unwrap();
        let own = storage.people.passkeys_of(&[id]).await.unwrap();
        let removals = own.into_iter().map(|passkey| {
            let people = storage.people.clone();
            async move { people.remove_passkey(id, passkey.id, ADMIN, &[]).await }
        });
        let refused: Vec<_> = at_once(removals).await.into_iter().filter(Result::is_err).collect();
        let [refused] = <[_; 1]>::try_from(refused).unwrap();
        assert_eq!(refusal(refused), PersonRefusal::LastMethod);
    }
}

/// Of several who take it at once, one gets it. Operators may give it once more, and so it may be had on another side.
pub async fn name_is_that_of_one_person_of_a_side(storage: &Storage) {
    let taken = active(storage, Role::Admin).await;
    let name = |text: &str| Some(PersonName::from_stored(text.to_owned()));
    let change = |name| PersonChange { name, ..PersonChange::default() };
    let like_taken = taken.person.name.as_str().to_uppercase();
    let invite_as = async |name: &str, party, issued_by| {
        let name = PersonName::from_stored(name.to_owned());
        let person = NewPerson { party, name, ..new_person(Role::Member) };
        let invitation = NewInvitation { issued_by, ..new_invitation() };
        storage.people.invite(&person, &invitation).await
    };
    let (own, by_admin) = (Party::Client(CLIENT), Some(taken.id));
    for taken in [&*like_taken, FORMER_USER] {
        let other = active(storage, Role::Member).await.id;
        let renamed = storage.people.change(other, ADMIN, &change(name(taken)), &[], NOW).await;
        assert_eq!(refusal(renamed), PersonRefusal::NameInUse);
        let invited = invite_as(taken, own, by_admin).await;
        assert_eq!(refusal(invited), PersonRefusal::NameInUse);
    }
    invite_as(&like_taken, OTHER_SIDE.party.unwrap(), by_admin).await.unwrap();

    let mut members = Vec::new();
    for _ in 0..4 {
        members.push(active(storage, Role::Member).await.id);
    }
    let renaming = members.into_iter().map(|id| {
        let (people, change) = (storage.people.clone(), change(name("Ann Roe")));
        async move { people.change(id, ADMIN, &change, &[], NOW).await }
    });
    assert_eq!(at_once(renaming).await.into_iter().flatten().count(), 1);

    invite_as(&like_taken, own, None).await.unwrap();
    // A person keeps a name that is there twice.
    let kept = change(Some(taken.person.name.clone()));
    storage.people.change(taken.id, ADMIN, &kept, &[], NOW).await.unwrap();
    // That of a disabled person stays theirs: the history names them.
    let left = active(storage, Role::Member).await;
    let disabled = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
    storage.people.change(left.id, ADMIN, &disabled, &[], NOW).await.unwrap();
    let invited = invite_as(left.person.name.as_str(), own, by_admin).await;
    assert_eq!(refusal(invited), PersonRefusal::NameInUse);
}

/// Of both sides, as long as the key is valid. Of a person and a key that take it at once, one gets it. Operators may give
/// it once more.
pub async fn name_is_that_of_a_person_or_of_a_key(storage: &Storage) {
    let first = NewApiKey { name: "Acme Title".to_owned(), ..api_key(NOW) };
    let client = ClientId(storage.keys.add(&first, "tests").await.unwrap().0);
    let service = SigningServiceId(42);
    for (party, client, for_service, taken) in [
        (Party::Client(client), Some(client), None, "ACME  Title"),
        (Party::Service(service), None, Some(service), "blue desk"),
    ] {
        let key = |name: &str| {
            let name = name.to_owned();
            NewApiKey { name, client, for_service, signing_service: None, ..api_key(NOW) }
        };
        let issue =
            async |key: NewApiKey| storage.keys.add_by_admin(&key, party, "tests").await.unwrap();
        let invite_as = async |name: &str, issued_by| {
            let name = PersonName::from_stored(name.to_owned());
            let person = NewPerson { party, name, ..new_person(Role::Member) };
            let invitation = NewInvitation { issued_by, ..new_invitation() };
            storage.people.invite(&person, &invitation).await
        };
        let rights = ChangeRights { party: Some(party), ..ADMIN };
        let named = |name: &str| PersonChange {
            name: Some(PersonName::from_stored(name.to_owned())),
            ..PersonChange::default()
        };
        let ann = invite_as("Ann Roe", None).await.unwrap();
        let rename =
            async |name: &str, at| storage.people.change(ann, rights, &named(name), &[], at).await;

        let refused = key("ann ROE");
        assert_eq!(issue(refused.clone()).await, None);
        assert_eq!(storage.keys.find(&refused.lookup).await.unwrap(), None);
        let desk = issue(key("Blue Desk")).await.unwrap();
        for name in ["Blue Desk", taken] {
            assert_eq!(refusal(rename(name, NOW).await), PersonRefusal::NameInUse, "{name}");
            let invited = invite_as(name, Some(ann)).await;
            assert_eq!(refusal(invited), PersonRefusal::NameInUse, "{name}");
        }
        storage.keys.add(&key("Ann Roe"), "tests").await.unwrap();
        rename("Ann Roe", NOW).await.unwrap();
        storage.people.change(ann, ChangeRights::OPERATOR, &named(taken), &[], NOW).await.unwrap();

        for number in 0..4 {
            let name = format!("Zoe {number}");
            let takes = [true, false].map(|is_key| {
                let (people, keys) = (storage.people.clone(), storage.keys.clone());
                let (key, change) = (key(&name), named(&name));
                async move {
                    if is_key {
                        keys.add_by_admin(&key, party, "tests").await.unwrap().is_some()
                    } else {
                        people.change(ann, rights, &change, &[], NOW).await.is_ok()
                    }
                }
            });
            assert_eq!(at_once(takes).await.into_iter().filter(|took| *took).count(), 1);
        }

        let end = NOW + Duration::MINUTE;
        issue(NewApiKey { expires_at: Some(end), ..key("Night") }).await.unwrap();
        let before = rename("Night", end - MICROSECOND).await;
        assert_eq!(refusal(before), PersonRefusal::NameInUse);
        rename("Night", end).await.unwrap();
        storage.keys.revoke(desk, NOW, "tests").await.unwrap();
        rename("Blue Desk", NOW).await.unwrap();
    }
    // Another side has names of its own.
    let other = SigningServiceId(43);
    let key = NewApiKey { name: "Blue Desk".to_owned(), for_service: Some(other), ..api_key(NOW) };
    let issued = storage.keys.add_by_admin(&key, Party::Service(other), "tests").await;
    assert!(issued.unwrap().is_some());
}

/// By those who may change them.
pub async fn person_is_found_as_changed(storage: &Storage) {
    let person = active(storage, Role::Member).await;
    let change = PersonChange {
        name: Some(PersonName::from_stored("Ann Roe".to_owned())),
        role: Some(Role::Admin),
        ..PersonChange::default()
    };
    let changed = storage.people.change(person.id, ADMIN, &change, &[], NOW).await.unwrap();
    assert_eq!(changed.person.email, person.person.email);
    assert_eq!((changed.person.role, changed.person.name.as_str()), (Role::Admin, "Ann Roe"));
    assert_eq!(find(storage, person.id).await, changed);
    for (id, rights) in [(person.id, OTHER_SIDE), (PersonId(999_999), ADMIN)] {
        let outcome = storage.people.change(id, rights, &change, &[], NOW).await;
        assert_eq!(refusal(outcome), PersonRefusal::Unknown);
    }
}

/// In the same step.
pub async fn disabling_ends_sessions(storage: &Storage) {
    let person = active(storage, Role::Member).await;
    let session = new_session(person.id, NOW);
    storage.sessions.add(&session, None).await.unwrap().unwrap();
    assert!(storage.sessions.find(session.token, NOW).await.unwrap().is_some());
    for is_disabled in [true, false] {
        let change = PersonChange { is_disabled: Some(is_disabled), ..PersonChange::default() };
        let changed = storage.people.change(person.id, ADMIN, &change, &[], NOW).await.unwrap();
        assert_eq!(changed.state() == PersonState::Disabled, is_disabled);
        // Enabling brings none back.
        assert_eq!(storage.sessions.find(session.token, NOW).await.unwrap(), None);
    }
}

/// However many leave at once. Invited and disabled admins do not count.
pub async fn one_admin_of_a_side_stays(storage: &Storage) {
    let mut admins = Vec::new();
    for _ in 0..4 {
        admins.push(active(storage, Role::Admin).await.id);
    }
    invite(storage, Role::Admin).await;
    let leave = admins.into_iter().enumerate().map(|(number, id)| {
        let people = storage.people.clone();
        let change = if number % 2 == 0 {
            PersonChange { role: Some(Role::Member), ..PersonChange::default() }
        } else {
            PersonChange { is_disabled: Some(true), ..PersonChange::default() }
        };
        async move { people.change(id, ADMIN, &change, &[], NOW).await }
    });
    let refused: Vec<_> = at_once(leave).await.into_iter().filter(Result::is_err).collect();
    let [refused] = <[_; 1]>::try_from(refused).unwrap();
    assert_eq!(refusal(refused), PersonRefusal::LastAdmin);
    let left = storage.people.list(ADMIN.party).await.unwrap();
    let [last] = &left.iter().filter(|it| it.is_active_admin()).collect::<Vec<_>>()[..] else {
        panic!("{left:?}")
    };
    // Operators may: they can invite another.
    let change = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
    storage.people.change(last.id, ChangeRights::OPERATOR, &change, &[], NOW).await.unwrap();
}

/// The record stays, because the history names it.
pub async fn erased_person_is_a_former_user(storage: &Storage) {
    let person = active(storage, Role::Admin).await;
    let passkey = storage.people.passkeys_of(&[person.id]).await.unwrap().remove(0);
    let session = new_session(person.id, NOW);
    storage.sessions.add(&session, None).await.unwrap().unwrap();
    let invitation = new_invitation();
    storage.people.invite_again(person.id, ADMIN, &invitation).await.unwrap();
    assert!(storage.people.erase(person.id, NOW).await.unwrap());
    assert!(!storage.people.erase(person.id, NOW).await.unwrap());
    let erased = find(storage, person.id).await;
    assert_eq!((erased.person.name.as_str(), erased.person.email.clone()), (FORMER_USER, None));
    assert_eq!(erased.state(), PersonState::Disabled);
    assert!(storage.people.passkey(&passkey.passkey.credential.id).await.unwrap().is_none());
    assert_eq!(storage.people.invitation(invitation.token).await.unwrap(), None);
    assert_eq!(storage.sessions.find(session.token, NOW).await.unwrap(), None);
    let left = storage.sessions.list(WhichSessions::OfPerson(person.id), NOW).await.unwrap();
    assert_eq!(left, []);
    let enabled = PersonChange { is_disabled: Some(false), ..PersonChange::default() };
    let outcome =
        storage.people.change(person.id, ChangeRights::OPERATOR, &enabled, &[], NOW).await;
    assert_eq!(refusal(outcome), PersonRefusal::Unknown);
}

/// Also of erased people and revoked keys.
pub async fn names_of_people_and_keys_are_read(storage: &Storage) {
    let Person { id: person, person: of_person, .. } = active(storage, Role::Member).await;
    let erased = active(storage, Role::Member).await.id;
    storage.people.erase(erased, NOW).await.unwrap();
    let new_key = api_key(NOW);
    let key = storage.keys.add(&new_key, "tests").await.unwrap();
    storage.keys.revoke(key, NOW, "tests").await.unwrap();
    let doers = [Doer::Person(person), Doer::Person(erased), Doer::Key(key)];
    let names = storage.people.names_of(&doers).await.unwrap();
    let name = of_person.name.as_str().to_owned();
    let expected = doers.into_iter().zip([name, FORMER_USER.to_owned(), new_key.name]);
    assert_eq!(names, expected.collect::<BTreeMap<_, _>>());
    let unknown = [Doer::Person(PersonId(999_999)), Doer::Key(API_KEY)];
    storage.people.names_of(&unknown).await.unwrap();
    assert_eq!(storage.people.names_of(&[]).await.unwrap(), BTreeMap::new());
}
