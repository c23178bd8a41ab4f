//! Invitations: a link that is looked at as often as anybody likes, and accepted once.

use domain::{
    person::ChangeRights,
    person::{PersonChange, Role},
};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use time::Duration;

use crate::{
    harness::{
        page::{CLIENT, Page, SERVICE, invited},
        problem,
        service_process::{ServiceProcess, run},
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    looking_uses_no_invitation_up,
    of_two_who_accept_at_once_one_wins,
    used_withdrawn_expired_and_disabled_are_told,
    another_invitation_gives_one_more_passkey,
}

/// As scanners of mails do, without cookies.
async fn looking_uses_no_invitation_up(kind: Kind) {
    let app = kind.app().await;
    let (_, token) = invited(&app, SERVICE, "Ann Roe", Role::Member).await;
    let scanner = Page::of(&app);
    // A fragment is not sent. One that a scanner takes for a part of the address leads nowhere, or to the page.
    let forms = ["/console".to_owned(), format!("/console?invite={}", token.expose())];
    for method in [Method::GET, Method::HEAD, Method::GET, Method::HEAD] {
        for form in &forms {
            let answer = scanner.bare(method.clone(), form).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            assert!(answer.headers().get("set-cookie").is_none());
            assert_eq!(answer.headers()["referrer-policy"], "no-referrer");
        }
        let looked = scanner.bare(method, "/api/session/invitation").send().await.unwrap();
        assert_eq!(looked.status(), 405);
    }
    for _ in 0..2 {
        let looked = Page::of(&app)
            .post("/api/session/invitation", json!({ "token": token.expose() }))
            .await;
        assert_eq!(
            (&looked["name"], &looked["side"], &looked["role"], &looked["is_active"]),
            (&json!("Ann Roe"), &json!("service"), &json!("member"), &json!(false))
        );
    }
    // Neither does a sign-in that begins and does not end.
    let accept = json!({ "purpose": "accept", "token": token.expose() });
    Page::of(&app).credential(accept).await;
    let session = Page::of(&app).accept(token.expose()).await;
    assert_eq!((&session["side"], &session["way"]), (&json!("service"), &json!("passkey")));
}

async fn of_two_who_accept_at_once_one_wins(kind: Kind) {
    let app = kind.app().await;
    let (id, token) = invited(&app, CLIENT, "Ann Roe", Role::Member).await;
    let mut finishing = Vec::new();
    for _ in 0..4 {
        let mut page = Page::of(&app);
        let accept = json!({ "purpose": "accept", "token": token.expose() });
        let credential = page.credential(accept).await;
        let finish = page.request(Method::POST, "/api/session/passkey/finish");
        finishing.push(finish.json(&json!({ "credential": credential })).send());
    }
    let mut statuses = Vec::new();
    for response in join_all(finishing).await {
        let response = response.unwrap();
        statuses.push(response.status().as_u16());
        if response.status() != 201 {
            problem(response, 410, "invitation_used").await;
        }
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 410, 410, 410]);
    assert_eq!((app.rows("passkeys"), app.rows("sessions")), (1, 1));
    assert_eq!(app.storage().people.passkeys_of(&[id]).await.unwrap().len(), 1);
}

async fn used_withdrawn_expired_and_disabled_are_told(kind: Kind) {
    let app = kind.app().await;
    let people = app.storage().people.clone();
    let now = app.machine().clock.now();
    let (_, used) = invited(&app, CLIENT, "Used", Role::Admin).await;
    Page::of(&app).accept(used.expose()).await;
    let (id, withdrawn) = invited(&app, CLIENT, "Withdrawn", Role::Member).await;
    people.withdraw_invitations(id, ChangeRights::OPERATOR, now).await.unwrap();
    let (id, disabled) = invited(&app, CLIENT, "Disabled", Role::Member).await;
    let disable = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
    people.change(id, ChangeRights::OPERATOR, &disable, &[], now).await.unwrap();
    let (_, expired) = invited(&app, CLIENT, "Expired", Role::Member).await;
    app.clock.advance(Duration::days(7));

    for (token, status, code) in [
        (used.expose(), 410, "invitation_used"),
        (withdrawn.expose(), 410, "invitation_withdrawn"),
        (expired.expose(), 410, "invitation_expired"),
        (disabled.expose(), 403, "person_disabled"),
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", 404, "invitation_unknown"),
        ("x", 404, "invitation_unknown"),
    ] {
        let mut page = Page::of(&app);
        let looked = (Method::POST, "/api/session/invitation");
        let body = page.refused(looked, Some(json!({ "token": token })), (status, code)).await;
        assert!(body["detail"].as_str().unwrap().len() > 40, "{body}");
        let accept = json!({ "purpose": "accept", "token": token });
        let began = (Method::POST, "/api/session/passkey");
        page.refused(began, Some(accept), (status, code)).await;
        assert_eq!(page.ceremony, None);
    }
}

/// For a person who has lost the first.
async fn another_invitation_gives_one_more_passkey(kind: Kind) {
    let app = kind.app().await;
    let (_, token) = invited(&app, CLIENT, "Ann Roe", Role::Admin).await;
    let mut admin = Page::of(&app);
    admin.accept(token.expose()).await;
    let person = json!({ "name": "Joe Doe", "role": "member" });
    let invited = admin.post("/api/people", person).await;
    assert_eq!(invited["mailed"], false);
    let token_of = |link: &serde_json::Value| {
        link.as_str().unwrap().split_once("/console#invite=").unwrap().1.to_owned()
    };
    let (lost, path) =
        (token_of(&invited["link"]), format!("/api/people/{}", invited["person"]["id"]));
    let again = admin.post(&format!("{path}/invitation"), json!({})).await;
    let looked = (Method::POST, "/api/session/invitation");
    let token = Some(json!({ "token": lost }));
    Page::of(&app).refused(looked.clone(), token, (410, "invitation_withdrawn")).await;
    let mut joe = Page::of(&app);
    joe.accept(&token_of(&again["link"])).await;
    let third = admin.post(&format!("{path}/invitation"), json!({})).await;
    let listed = admin.get("/api/people").await;
    assert_eq!(listed["people"][1]["invitation_expires_at"], third["expires_at"]);
    let mut other = Page::of(&app);
    other.accept(&token_of(&third["link"])).await;
    assert_eq!(other.get("/api/people/me").await["passkeys"].as_array().unwrap().len(), 2);
    // Withdrawn by a click.
    let fourth = admin.post(&format!("{path}/invitation"), json!({})).await;
    admin.call(Method::DELETE, &format!("{path}/invitation"), None).await;
    let token = Some(json!({ "token": token_of(&fourth["link"]) }));
    Page::of(&app).refused(looked, token, (410, "invitation_withdrawn")).await;
}

/// Neither in the log nor in the database, though every request has one.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_stands_in_a_log_or_in_the_database() {
    let wiring = Wiring::embedded();
    let server = ServiceProcess::keyed(&wiring, &["--log-level=debug"]);
    let link = run(
        &wiring,
        &["people", "invite", "--client=1", "--name=Ann Roe", "--email=ann@title.example.com"],
    );
    let token = link.trim().split_once("#invite=").unwrap().1.to_owned();
    let mut page = Page::of(&server);
    page.post("/api/session/invitation", json!({ "token": token })).await;
    let credential = page.credential(json!({ "purpose": "accept", "token": token })).await;
    let ceremony = page.ceremony.clone().unwrap();
    let finish = json!({ "credential": credential });
    page.post("/api/session/passkey/finish", finish).await;
    let session = page.session.clone().unwrap();
    page.get("/api/session").await;
    page.bare(Method::GET, "/console?code=S3CRET&state=S3CRET").send().await.unwrap();
    let file = wiring.data().join("notary-orders.sqlite");
    let log = server.stop_and_read_log();
    let stored = ["", "-wal"].map(|end| std::fs::read(format!("{}{end}", file.display())));
    let stored = stored.into_iter().flatten().flatten().collect::<Vec<_>>();
    for secret in [&token, &ceremony, &session, "S3CRET"] {
        assert!(!log.contains(secret), "{log}");
        let is_stored = stored.windows(secret.len()).any(|it| it == secret.as_bytes());
        assert!(!is_stored, "{secret}");
    }
    // Looked for in the right place.
    assert!(log.contains("signed in") && stored.windows(7).any(|it| it == b"Ann Roe"), "{log}");
}
