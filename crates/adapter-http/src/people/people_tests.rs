use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use actix_web::http::Method;
use domain::{
    access::AccessKind,
    person::{ChangeRights, Person, PersonId, Role, Session},
    ports::{MockApiKeyRepo, MockNotifier, MockServiceRepo, Notice, PersonError},
    use_cases::people::mail_invitation::MailInvitation,
};
use serde_json::json;
use time::Duration;
use tokio_util::sync::CancellationToken;

use crate::{
    InvitationMails,
    test_support::{NOW, OWNER, Ports, TestApi, api_key, person},
};

/// Returns mocks that store an invitation of a person of the side.
fn inviting() -> Ports {
    let mut ports = Ports::with_person(|_, _| {});
    ports.people.expect_invite().returning(|person, _| {
        assert_eq!((person.party, person.name.as_str()), (OWNER.party, "Joe Doe"));
        Ok(PersonId(8))
    });
    ports.people.expect_find().returning(|id| {
        let mut joe = Person { id, accepted_at: None, ..person() };
        joe.person.role = Role::Member;
        Ok(Some(joe))
    });
    ports.people.expect_passkeys_of().returning(|_| Ok(vec![]));
    ports.people.expect_open_invitations().returning(|_, _| Ok(vec![]));
    ports
}

fn invitation() -> actix_web::test::TestRequest {
    let body = json!({ "name": "Joe Doe", "email": "joe@title.example.com", "role": "member" });
    TestApi::by_page(Method::POST, "/api/people").set_json(body)
}

#[actix_web::test]
async fn link_of_an_invitation_is_shown_once_and_recorded_without_it() {
    let api = inviting().api();
    let answer = api.send(invitation()).await;
    assert_eq!((answer.status.as_u16(), &answer.body["mailed"]), (201, &json!(false)));
    let link = answer.body["link"].as_str().unwrap();
    assert!(link.starts_with("http://localhost:8080/console#invite="), "{link}");
    assert_eq!(answer.header("cache-control"), "no-store");
    let accesses = api.accesses().await;
    assert_eq!((accesses[0].facts.kind, accesses[0].facts.subject), (AccessKind::Invite, Some(8)));
}

#[actix_web::test]
async fn link_is_mailed_unless_the_database_is_a_copy() {
    for leaves in [true, false] {
        let told = Arc::new(Mutex::new(None));
        let (mut keys, mut notifier) = (MockApiKeyRepo::new(), MockNotifier::new());
        keys.expect_first_of().returning(|_| Ok(Some(api_key())));
        let seen = Arc::clone(&told);
        notifier.expect_tell().times(usize::from(leaves)).returning(move |notice| {
            let Notice::Invitation(notice) = notice else { panic!("another notice") };
            assert_eq!((notice.person, notice.by.as_deref()), (PersonId(8), Some("Ann Roe")));
            *seen.lock().unwrap() = Some(notice.link.clone());
            Ok(())
        });
        let may_leave = CancellationToken::new();
        if leaves {
            may_leave.cancel();
        }
        let mail = MailInvitation {
            keys: Arc::new(keys),
            services: Arc::new(MockServiceRepo::new()),
            notifier: Arc::new(notifier),
        };
        let mails = Some(InvitationMails { mail, may_leave });
        let answer = Ports { invitation_mails: mails, ..inviting() }.api().send(invitation()).await;
        assert_eq!(answer.body["mailed"], leaves);
        let link = leaves.then(|| answer.body["link"].as_str().unwrap().to_owned());
        assert_eq!(*told.lock().unwrap(), link);
    }
}

#[actix_web::test]
async fn only_admins_who_have_just_signed_in_change_people_and_keys() {
    type Change = fn(&mut Person, &mut Session);
    let member: Change = |person, _| person.person.role = Role::Member;
    let old: Change = |_, session| session.session.signed_in_at = NOW - Duration::minutes(5);
    for (change, code) in [(member, "not_admin"), (old, "sign_in_again")] {
        for (method, path) in [
            (Method::POST, "/api/people"),
            (Method::PATCH, "/api/people/8"),
            (Method::POST, "/api/people/8/invitation"),
            (Method::DELETE, "/api/people/8/invitation"),
            (Method::DELETE, "/api/people/8/sessions"),
            (Method::DELETE, "/api/people/8/passkeys/5"),
            (Method::POST, "/api/keys"),
            (Method::POST, "/api/keys/5/rotate"),
            (Method::DELETE, "/api/keys/5"),
        ] {
            // The mocks of people and keys expect nothing.
            let api = Ports::with_person(change).api();
            let request = TestApi::by_page(method, path).set_json(json!({}));
            api.send(request).await.problem(403, code);
            assert_eq!(api.accesses().await[0].outcome, code, "{path}");
        }
    }
    // A key never does.
    let api = Ports::new().api();
    for path in ["/api/people", "/api/keys"] {
        api.send(TestApi::get(path)).await.problem(403, "key_cannot_manage");
        let request = TestApi::post(path).set_json(json!({}));
        api.send(request).await.problem(403, "key_cannot_manage");
    }
}

/// The mocks of people, keys, passkeys and sessions expect no change.
#[actix_web::test]
async fn false_precondition_changes_no_person_key_or_session() {
    let creations = [
        (Method::POST, "/api/people"),
        (Method::POST, "/api/keys"),
        (Method::POST, "/api/people/me/passkeys"),
        (Method::POST, "/api/people/me/passkeys/finish"),
        (Method::POST, "/api/session/key"),
        (Method::POST, "/api/session/passkey"),
        (Method::POST, "/api/session/passkey/finish"),
        (Method::POST, "/api/session/login"),
        (Method::POST, "/api/session/login/finish"),
    ];
    let changes = [
        (Method::PATCH, "/api/people/me"),
        (Method::PATCH, "/api/people/8"),
        (Method::POST, "/api/people/8/invitation"),
        (Method::DELETE, "/api/people/8/invitation"),
        (Method::DELETE, "/api/people/8/sessions"),
        (Method::DELETE, "/api/people/8/passkeys/5"),
        (Method::DELETE, "/api/people/me/passkeys/5"),
        (Method::POST, "/api/session/invitation"),
        (Method::DELETE, "/api/session"),
        (Method::POST, "/api/keys/5/rotate"),
        (Method::DELETE, "/api/keys/5"),
    ];
    let of_creation = [("if-match", "*"), ("if-match", "\"other\"")];
    let of_change = [("if-match", "\"other\""), ("if-none-match", "*")];
    let api = Ports::with_person(|_, _| {}).api();
    for (operations, headers) in [(&creations[..], of_creation), (&changes[..], of_change)] {
        for ((method, path), header) in
            operations.iter().flat_map(|it| headers.map(|header| (it, header)))
        {
            let request = TestApi::by_page(method.clone(), path).insert_header(header);
            let answer = api.send(request.set_json(json!({}))).await;
            assert_eq!(answer.status, 412, "{method} {path} {header:?}");
            answer.problem(412, "precondition_failed");
        }
    }
}

/// The mocks of people, keys, passkeys and sessions expect no change.
#[actix_web::test]
async fn unknown_member_changes_no_person_key_or_session() {
    let api = Ports::with_person(|_, _| {}).api();
    for (method, path) in [
        (Method::POST, "/api/people"),
        (Method::PATCH, "/api/people/me"),
        (Method::PATCH, "/api/people/8"),
        (Method::POST, "/api/people/8/invitation"),
        (Method::POST, "/api/people/me/passkeys"),
        (Method::POST, "/api/people/me/passkeys/finish"),
        (Method::POST, "/api/keys"),
        (Method::POST, "/api/keys/5/rotate"),
        (Method::POST, "/api/session/key"),
        (Method::POST, "/api/session/invitation"),
        (Method::POST, "/api/session/passkey"),
        (Method::POST, "/api/session/passkey/finish"),
        (Method::POST, "/api/session/login"),
        (Method::POST, "/api/session/login/finish"),
    ] {
        let request = TestApi::by_page(method, path).set_json(json!({ "a": 1 }));
        let answer = api.send(request).await;
        assert!(answer.errors().contains(&("/a", "unknown_member")), "{path}: {answer:?}");
    }
}

/// To lead the next link elsewhere.
#[actix_web::test]
async fn own_address_is_changed_a_short_time_after_the_sign_in_only() {
    let email = |text: &str| json!({ "name": "Ann Smith", "email": text });
    let own = person().person.email.unwrap().as_str().to_owned();
    for (body, minutes, is_changed) in [
        (email("eve@evil.example"), 5, false),
        (email("ann@elsewhere.example"), 4, true),
        (email(&own), 600, true),
        (json!({ "name": "Ann Smith" }), 600, true),
    ] {
        let mut ports = match minutes {
            4 => Ports::with_person(|_, it| it.session.signed_in_at = NOW - Duration::minutes(4)),
            5 => Ports::with_person(|_, it| it.session.signed_in_at = NOW - Duration::minutes(5)),
            _ => Ports::with_person(|_, it| it.session.signed_in_at = NOW - Duration::hours(10)),
        };
        ports
            .people
            .expect_change()
            .times(usize::from(is_changed))
            .returning(|_, _, _, _, _| Ok(person()));
        ports.people.expect_identities_of().returning(|_| Ok(vec![]));
        ports.people.expect_passkeys_of().returning(|_| Ok(vec![]));
        ports.people.expect_open_invitations().returning(|_, _| Ok(vec![]));
        let request = TestApi::by_page(Method::PATCH, "/api/people/me");
        let answer = ports.api().send(request.set_json(&body)).await;
        if is_changed {
            assert_eq!(answer.status, 200, "{body}");
        } else {
            answer.problem(403, "sign_in_again");
        }
    }
}

#[actix_web::test]
async fn nothing_is_changed_that_could_not_be_recorded() {
    let api = Ports::with_person(|_, _| {}).api();
    api.fill_recorder();
    api.send(invitation()).await.problem(503, "unavailable");
}

#[actix_web::test]
async fn admin_is_limited_to_the_own_side() {
    let own = ChangeRights { party: Some(OWNER.party), may_leave_none: false };
    let mut ports = Ports::with_person(|_, _| {});
    ports.people.expect_change().once().returning(move |id, rights, change, _, _| {
        assert_eq!((id, rights, change.role), (PersonId(8), own, Some(Role::Member)));
        Err(PersonError::Refused(domain::person::PersonRefusal::LastAdmin))
    });
    let request = TestApi::by_page(Method::PATCH, "/api/people/8");
    let answer = ports.api().send(request.set_json(json!({ "role": "member" }))).await;
    answer.problem(409, "last_admin");
}

#[actix_web::test]
async fn people_are_listed_with_their_passkeys_and_open_invitations() {
    let mut ports = Ports::with_person(|_, _| {});
    ports.people.expect_list().once().returning(|party| {
        assert_eq!(party, Some(OWNER.party));
        Ok(vec![person()])
    });
    ports.people.expect_passkeys_of().returning(|_| Ok(vec![]));
    ports.people.expect_open_invitations().returning(|_, _| Ok(vec![]));
    let answer = ports.api().send(TestApi::by_page(Method::GET, "/api/people")).await;
    let listed = &answer.body["people"][0];
    assert_eq!(
        (&listed["state"], &listed["invitation_expires_at"]),
        (&json!("active"), &json!(null))
    );
    assert_eq!(listed["passkeys"], json!([]));
    let names: BTreeMap<_, _> = listed.as_object().unwrap().iter().collect();
    assert_eq!(names.len(), 9);
}

#[actix_web::test]
async fn issued_key_is_of_the_side_and_shown_once() {
    let mut ports = Ports::with_person(|_, _| {});
    let issued = Arc::new(Mutex::new(vec![api_key()]));
    let listed = Arc::clone(&issued);
    ports.keys.expect_list().returning(move || Ok(listed.lock().unwrap().clone()));
    ports.keys.expect_add_by_admin().once().returning(move |key, party, by| {
        assert_eq!((by, key.client.map(|client| client.0)), ("person 3", Some(1)));
        assert_eq!(party, OWNER.party);
        let key = domain::api_key::ApiKey {
            id: domain::api_key::ApiKeyId(5),
            key: key.clone(),
            revoked_at: None,
            last_used_at: None,
        };
        issued.lock().unwrap().push(key);
        Ok(Some(domain::api_key::ApiKeyId(5)))
    });
    let api = ports.api();
    let request = TestApi::by_page(Method::POST, "/api/keys");
    let answer = api.send(request.set_json(json!({ "name": "desk" }))).await;
    assert_eq!((answer.status.as_u16(), &answer.body["id"]), (201, &json!(5)));
    let key = answer.body["key"].as_str().unwrap();
    assert!(key.starts_with(answer.body["start"].as_str().unwrap()) && key.len() > 60);
    let accesses = api.accesses().await;
    assert_eq!(
        (accesses[0].facts.kind, accesses[0].facts.subject),
        (AccessKind::IssueKey, Some(5))
    );
    let listed = api.send(TestApi::by_page(Method::GET, "/api/keys")).await;
    let listed = listed.body["keys"].as_array().unwrap();
    assert!(listed.len() == 2 && listed.iter().all(|it| it.get("key").is_none()));
}

#[actix_web::test]
async fn key_gets_no_name_of_a_person() {
    let mut ports = Ports::with_person(|_, _| {});
    ports.keys.expect_list().returning(|| Ok(vec![api_key()]));
    ports.keys.expect_add_by_admin().once().returning(|_, _, _| Ok(None));
    let request = TestApi::by_page(Method::POST, "/api/keys");
    let answer = ports.api().send(request.set_json(json!({ "name": "Adm Two" }))).await;
    answer.problem(409, "name_in_use");
}

#[actix_web::test]
async fn issued_key_is_bound_like_the_others_of_the_client() {
    let mut ports = Ports::with_person(|_, _| {});
    let service = Some(domain::order::SigningServiceId(42));
    ports.keys.expect_list().returning(move || {
        let mut bound = api_key();
        bound.key.signing_service = service;
        bound.key.client = Some(domain::api_key::ClientId(1));
        let issued = domain::api_key::ApiKey { id: domain::api_key::ApiKeyId(5), ..bound.clone() };
        Ok(vec![bound, domain::api_key::ApiKey { revoked_at: Some(NOW), ..issued }])
    });
    ports.keys.expect_add_by_admin().once().returning(move |key, _, _| {
        assert_eq!(key.signing_service, service);
        Ok(Some(domain::api_key::ApiKeyId(5)))
    });
    let request = TestApi::by_page(Method::POST, "/api/keys");
    let answer = ports.api().send(request.set_json(json!({ "name": "desk" }))).await;
    assert_eq!(answer.status.as_u16(), 201);
}
