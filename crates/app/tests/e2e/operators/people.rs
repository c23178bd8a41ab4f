//! The commands about people, and their names where they have acted.

use contract_tests::samples::{by_passkey, new_session};
use domain::{
    api_key::Scope,
    order::SigningServiceId,
    person::{PersonId, Role, Token, TokenHash},
    ports::{Clock as _, NewMethod},
    use_cases::keys::manage_keys::KeyTerms,
};
use operator::{SystemClock, adapters::Storage};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::page::{CLIENT, signed_in},
    harness::service_process::{fail, issue_key, notary_orders, on_a_terminal, output, run, text},
    harness::{
        Api, CREATE_WITH_DOCUMENTS, TestApp, created, eventually, files_below, form_with_deed,
        problem, settings,
    },
    wiring::{Kind, Wiring, on_both_wirings},
};

on_both_wirings! {
    link_is_all_that_an_invitation_prints_and_none_is_stored,
    people_are_listed_changed_disabled_and_enabled,
    sessions_are_listed_and_ended,
    lost_passkey_is_removed,
    each_change_of_people_leaves_its_row,
    names_stand_where_people_acted_until_they_are_erased,
}

const ANN: [&str; 4] = ["people", "invite", "--name=Ann Roe", "--email=ann@title.example.com"];

/// Invites a person, and returns what the command prints.
fn invite(wiring: &Wiring, flags: &[&str]) -> String {
    run(wiring, &[&ANN[..], flags].concat())
}

/// Returns the token of a link.
fn token(link: &str) -> Token {
    let (_, token) = link.trim_end().split_once("#invite=").unwrap();
    Token::parse(token).unwrap()
}

/// Makes a person active, as a browser does, and returns their number.
async fn accept(storage: &Storage, link: &str, method: &NewMethod) -> PersonId {
    let now = SystemClock.now();
    storage.people.accept(token(link).hash(), method, now).await.unwrap().id
}

/// Begins a session of a person. Returns its token.
async fn sign_in(storage: &Storage, person: PersonId) -> TokenHash {
    let session = new_session(person, SystemClock.now());
    storage.sessions.add(&session, None).await.unwrap().unwrap();
    session.token
}

async fn storage(wiring: &Wiring) -> Storage {
    Storage::open(&settings(wiring, &[], &[])).await.unwrap()
}

/// Returns the rows of a list.
fn listed(wiring: &Wiring, words: &str) -> Vec<Value> {
    let arguments: Vec<_> = words.split(' ').chain(["--json"]).collect();
    let lines = run(wiring, &arguments);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn members(value: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| value[*name].clone()).collect()
}

async fn link_is_all_that_an_invitation_prints_and_none_is_stored(kind: Kind) {
    let wiring = kind.wiring();
    issue_key(&wiring);
    let public = "--public-url=https://orders.example.com/x/";
    let logged = ["--client=1", public, "--log-level=trace"];
    let printed = output(&wiring, &[&ANN[..], &logged].concat());
    let log = String::from_utf8(printed.stderr.clone()).unwrap();
    let link = text(printed);
    for secret in [token(&link).expose(), "Ann", "ann@"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    assert!(link.starts_with("https://orders.example.com/x/console#invite="), "{link}");
    assert_eq!(link.lines().count(), 1, "{link}");
    // Where browsers allow passkeys without TLS.
    let own = invite(&wiring, &["--client=1", "--listen=0.0.0.0:8080", "--base-path=/x"]);
    assert!(own.starts_with("http://localhost:8080/x/console#invite="), "{own}");
    assert!(token(&link) != token(&own));

    let storage = storage(&wiring).await;
    let person = accept(&storage, &link, &by_passkey()).await;
    assert_eq!(person, PersonId(1));
    for file in files_below(wiring.data()) {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(token(&link).expose()), "{}", file.display());
    }
    // Another link withdraws the one before.
    let again = run(&wiring, &["people", "invite-again", "2", public]);
    let now = SystemClock.now();
    storage.people.accept(token(&own).hash(), &by_passkey(), now).await.unwrap_err();
    assert_eq!(accept(&storage, &again, &by_passkey()).await, PersonId(2));
    let (unknown, no_side, both) = (
        fail(&wiring, &[&ANN[..], &["--client=9"]].concat()),
        output(&wiring, &ANN),
        output(&wiring, &[&ANN[..], &["--client=1", "--for-service=42"]].concat()),
    );
    assert!(unknown.contains("there is no client 9"), "{unknown}");
    assert_eq!([no_side.status.code(), both.status.code()], [Some(2); 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invitation_is_mailed_by_a_relay_if_users_know_the_address() {
    let (with_relay, without) = (Wiring::production(), Wiring::embedded());
    let public = "--public-url=https://orders.example.com";
    issue_key(&with_relay);
    issue_key(&without);
    let to_client = [&ANN[..], &["--client=1"]].concat();
    for (wiring, flags) in [(&with_relay, &[][..]), (&without, &[public])] {
        let printed = output(wiring, &[&to_client[..], flags].concat());
        let notes = String::from_utf8(printed.stderr).unwrap();
        assert!(notes.contains("valid for 7 days") && !notes.contains("mailed"), "{notes}");
        assert_eq!(wiring.mails().len(), 0);
    }
    let printed = output(&with_relay, &[&to_client[..], &[public]].concat());
    let notes = String::from_utf8(printed.stderr.clone()).unwrap();
    assert!(notes.contains("it was mailed, too"), "{notes}");
    let link = text(printed);
    assert!(!notes.contains(token(&link).expose()), "{notes}");
    let mail = with_relay.mails().remove(0);
    // Quoted-printable.
    let mail = mail.replace("=\r\n", "").replace("=3D", "=");
    assert!(mail.contains("Subject: Your invitation to sign in"), "{mail}");
    assert!(mail.contains("To: ann@title.example.com") && mail.contains(link.trim()), "{mail}");
}

async fn people_are_listed_changed_disabled_and_enabled(kind: Kind) {
    let wiring = kind.wiring();
    issue_key(&wiring);
    let link = invite(&wiring, &["--client=1", "--admin"]);
    let of_service = ["people", "invite", "--for-service=42", "--name=Bo", "--email=bo@s.example"];
    run(&wiring, &of_service);
    let storage = storage(&wiring).await;
    accept(&storage, &link, &by_passkey()).await;
    let names = ["id", "state", "role", "client_id", "signing_service_id", "passkeys", "name"];
    let all = listed(&wiring, "people list");
    let ann = [json!(1), json!("active"), json!("admin"), json!(1), json!(null), json!(1)];
    let bo = [json!(2), json!("invited"), json!("member"), json!(null), json!(42), json!(0)];
    assert_eq!(members(&all[0], &names), [&ann[..], &[json!("Ann Roe")]].concat());
    assert_eq!(members(&all[1], &names), [&bo[..], &[json!("Bo")]].concat());
    for (filter, expected) in
        [("--client 1", vec![1]), ("--for-service 42", vec![2]), ("--client 2", vec![])]
    {
        let found = listed(&wiring, &format!("people list {filter}"));
        let found: Vec<_> = found.iter().map(|person| person["id"].as_i64().unwrap()).collect();
        assert_eq!(found, expected, "{filter}");
    }

    let changes = ["--name=Ann Poe", "--email=poe@title.example.com", "--role=member"];
    run(&wiring, &[&["people", "change", "1"], &changes[..]].concat());
    let state = |names: &[&str]| members(&listed(&wiring, "people list")[0], names);
    let expected = [json!("Ann Poe"), json!("poe@title.example.com"), json!("member")];
    assert_eq!(state(&["name", "email", "role"]), expected);
    // An operator may leave a side without an admin.
    assert_eq!(run(&wiring, &["people", "disable", "1"]), "person 1 is disabled\n");
    assert_eq!(state(&["state"]), ["disabled"]);
    let again = fail(&wiring, &["people", "invite-again", "1"]);
    assert!(again.contains("person 1 is disabled; `people enable 1` first"), "{again}");
    run(&wiring, &["people", "enable", "1"]);
    assert_eq!(state(&["state"]), ["active"]);
    for command in ["disable", "enable", "invite-again"] {
        let unknown = fail(&wiring, &["people", command, "9"]);
        assert!(unknown.contains("there is no person 9"), "{unknown}");
    }
    assert_eq!(output(&wiring, &["people", "change", "1"]).status.code(), Some(2));
    for wrong in ["--name=two\nlines", "--email=nowhere", "--role=owner"] {
        let refused = output(&wiring, &["people", "change", "1", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn list_of_people_fits_a_terminal_and_is_whole_in_a_pipe() {
    let wiring = Wiring::embedded();
    let long = "é".repeat(100);
    let name = format!("--name={long}");
    let email = format!("--email={}@signings.example.com", "a".repeat(60));
    run(&wiring, &["people", "invite", "--for-service=4242", &name, &email]);
    let table = run(&wiring, &["people", "list"]);
    assert!(table.contains(&long) && table.contains(" service 4242 "), "{table}");
    let mut terminal = on_a_terminal(&notary_orders(&wiring, &["people", "list"]));
    let shown = text(terminal.output().unwrap());
    assert!(shown.contains('…') && !shown.contains(&long), "{shown}");
    assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 100), "{shown}");
}

async fn sessions_are_listed_and_ended(kind: Kind) {
    let wiring = kind.wiring();
    issue_key(&wiring);
    let storage = storage(&wiring).await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let link = invite(&wiring, &["--client=1"]);
        let person = accept(&storage, &link, &by_passkey()).await;
        for _ in 0..2 {
            tokens.push(sign_in(&storage, person).await);
        }
    }
    let numbers = |words: &str| {
        let sessions = listed(&wiring, words);
        sessions.iter().map(|session| session["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers("people sessions"), [6, 5, 4, 3, 2, 1]);
    let session = listed(&wiring, "people sessions 2").remove(0);
    let expected = [json!(4), json!(2), json!(null), json!("login:entra"), json!("Ann Roe")];
    assert_eq!(members(&session, &["id", "person", "api_key", "signed_in_by", "name"]), expected);
    assert_eq!(run(&wiring, &["people", "sessions", "1", "--end"]), "sessions ended: 2\n");
    assert_eq!(run(&wiring, &["people", "sessions", "--end-one=4"]), "sessions ended: 1\n");
    assert_eq!(numbers("people sessions"), [6, 5, 3]);
    run(&wiring, &["people", "disable", "3"]);
    assert_eq!(numbers("people sessions"), [3]);
    for (token, is_open) in tokens.into_iter().zip([false, false, true, false, false, false]) {
        let found = storage.sessions.find(token, SystemClock.now()).await.unwrap();
        assert_eq!(found.is_some(), is_open);
    }
    for arguments in [&["people", "sessions", "9"][..], &["people", "sessions", "9", "--end"]] {
        let unknown = fail(&wiring, arguments);
        assert!(unknown.contains("there is no person 9"), "{unknown}");
    }
    let ended = fail(&wiring, &["people", "sessions", "--end-one=4"]);
    assert!(ended.contains("there is no open session 4"), "{ended}");
    assert_eq!(run(&wiring, &["people", "sessions", "--end"]), "sessions ended: 1\n");
    assert_eq!(numbers("people sessions"), [0; 0]);
}

/// Also the last one: the person is invited again.
async fn lost_passkey_is_removed(kind: Kind) {
    let wiring = kind.wiring();
    issue_key(&wiring);
    let (first, second) = (invite(&wiring, &["--client=1"]), invite(&wiring, &["--client=1"]));
    let storage = storage(&wiring).await;
    accept(&storage, &first, &by_passkey()).await;
    accept(&storage, &second, &by_passkey()).await;
    let passkeys = listed(&wiring, "people passkeys 2");
    let names = ["id", "name", "last_used"];
    assert_eq!(members(&passkeys[0], &names), [json!(2), json!("Laptop"), json!(null)]);
    let of_another = fail(&wiring, &["people", "passkeys", "1", "--remove=2"]);
    assert!(of_another.contains("person 1 has no passkey 2"), "{of_another}");
    let unknown = fail(&wiring, &["people", "passkeys", "9"]);
    assert!(unknown.contains("there is no person 9"), "{unknown}");
    let removed = run(&wiring, &["people", "passkeys", "2", "--remove=2"]);
    assert_eq!(removed, "passkey 2 is removed\n");
    assert_eq!(listed(&wiring, "people passkeys 2"), [Value::Null; 0]);
    let left = listed(&wiring, "people list");
    let left: Vec<_> = left.iter().map(|person| members(person, &["state", "passkeys"])).collect();
    assert_eq!(left, [[json!("active"), json!(1)], [json!("active"), json!(0)]]);
    let again = run(&wiring, &["people", "invite-again", "2"]);
    assert_eq!(accept(&storage, &again, &by_passkey()).await, PersonId(2));
}

async fn each_change_of_people_leaves_its_row(kind: Kind) {
    let wiring = kind.wiring();
    issue_key(&wiring);
    let link = invite(&wiring, &["--client=1"]);
    let storage = storage(&wiring).await;
    let person = accept(&storage, &link, &by_passkey()).await;
    sign_in(&storage, person).await;
    for words in [
        "list",
        "invite-again 1",
        "invite-again 9",
        "change 1 --role admin",
        "disable 1",
        "invite-again 1",
        "enable 1",
        "sessions",
        "sessions 1 --end",
        "sessions --end-one 1",
        "sessions 9 --end",
        "passkeys 1",
        "passkeys 1 --remove 1",
        "passkeys 1 --remove 1",
        // Without a terminal it needs --yes.
        "erase 1",
        "erase 1 --yes",
        "erase 1 --yes",
        "erase 9 --yes",
        "change 1 --role member",
    ] {
        let arguments: Vec<_> = ["people"].into_iter().chain(words.split(' ')).collect();
        output(&wiring, &arguments);
    }
    let mut accesses = listed(&wiring, "accesses list");
    accesses.reverse();
    let facts: Vec<_> = accesses
        .iter()
        .map(|access| {
            assert_eq!((&access["actor"], &access["order_id"]), (&json!("operator"), &json!(null)));
            let text = |name: &str| access[name].as_str().unwrap();
            (text("kind"), access["subject_id"].as_i64(), text("outcome"))
        })
        .collect();
    assert_eq!(
        facts,
        [
            ("invite", Some(1), "ok"),
            ("invite", Some(1), "ok"),
            ("invite", Some(9), "not_found"),
            ("change_person", Some(1), "ok"),
            ("change_person", Some(1), "ok"),
            ("invite", Some(1), "person_disabled"),
            ("change_person", Some(1), "ok"),
            ("end_sessions", Some(1), "ok"),
            ("end_sessions", None, "not_found"),
            ("end_sessions", Some(9), "not_found"),
            ("remove_passkey", Some(1), "ok"),
            ("remove_passkey", Some(1), "not_found"),
            ("erase_person", Some(1), "ok"),
            ("erase_person", Some(1), "erased"),
            ("erase_person", Some(9), "not_found"),
            ("change_person", Some(1), "not_found"),
        ]
    );
    assert_eq!(accesses[3]["command"], "people change");
    let table = run(&wiring, &["accesses", "list"]);
    let is_named = |line: &str| {
        line.split_whitespace().skip(1).take(4).eq(["erase_person", "person", "1", "operator"])
    };
    assert!(table.lines().any(is_named), "{table}");
}

/// For their own side and for operators.
async fn names_stand_where_people_acted_until_they_are_erased(kind: Kind) {
    let app = kind.app().await;
    let terms = KeyTerms {
        for_service: Some(SigningServiceId(42)),
        scopes: Scope::DEFAULT_OF_SERVICES.into_iter().collect(),
        ..KeyTerms::default()
    };
    let service = app.as_key(&app.issue_key_on(terms).await);
    let (id, mut ann) = signed_in(&app, CLIENT, "Ann Roe", Role::Member).await;
    let order = ann.request(Method::POST, CREATE_WITH_DOCUMENTS).multipart(form_with_deed("F-1"));
    created(order.send().await.unwrap()).await;
    ann.post("/api/order/1/notes", json!({ "text": "called" })).await;
    ann.get("/api/order/1").await;
    eventually(|| app.rows("accesses WHERE kind = 'read'") == 1).await;

    for name in ["Ann Roe", "former user"] {
        assert_named(&app, &service, name).await;
        if name == "Ann Roe" {
            run(&app.wiring, &["people", "erase", &id.0.to_string(), "--yes"]);
        }
    }
    assert_eq!(listed(&app.wiring, "people list"), [Value::Null; 0]);
    // A session is read anew after some seconds.
    app.clock.advance(time::Duration::seconds(10));
    let gone = ann.send(Method::GET, "/api/order/1", None).await;
    problem(gone, 401, "session_ended").await;
}

async fn assert_named(app: &TestApp, service: &Api, name: &str) {
    let by_person = |accesses: &Value| {
        let accesses = accesses["data"].as_array().unwrap().iter();
        accesses.filter(|access| access["person_id"] == 1).cloned().collect::<Vec<_>>()
    };
    let order = app.read("/api/order/1").await;
    for acted in ["/history/0", "/documents/0", "/notes/0"] {
        assert_eq!(order.pointer(acted).unwrap()["by"], name, "{acted}: {order}");
    }
    let accesses = by_person(&app.read("/api/order/1/accesses?limit=100").await);
    assert_eq!(accesses.len(), 2, "{accesses:?}");
    assert!(accesses.iter().all(|access| access["by"] == name), "{accesses:?}");

    let order = service.read("/api/order/1").await;
    let accesses = service.read("/api/order/1/accesses?limit=100").await;
    for answer in [order, accesses] {
        let answer = answer.to_string();
        assert!(!answer.contains(name) && !answer.contains("person_id"), "{answer}");
    }

    let order: Value = serde_json::from_str(&run(&app.wiring, &["orders", "show", "1"])).unwrap();
    assert_eq!(order["history"][0]["by"], name, "{order}");
    let table = run(&app.wiring, &["orders", "accesses", "1"]);
    assert!(table.contains(&format!("  person 1 {name}  ")), "{table}");
    let of_person = listed(&app.wiring, "accesses list --person 1");
    let kinds: Vec<_> = of_person.iter().map(|access| access["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["read", "add_note", "sign_in"]);
    assert!(of_person.iter().all(|access| access["by"] == name), "{of_person:?}");
    let csv = run(&app.wiring, &["orders", "accesses", "1", "--csv"]);
    assert!(csv.lines().any(|line| line.ends_with(&format!(",ok,1,,{name}"))), "{csv}");
}

/// Beside a running service.
#[tokio::test(flavor = "multi_thread")]
async fn erased_person_leaves_nothing_in_files() {
    const MARKER: &str = "mkpersonzq";
    let app = TestApp::start().await;
    let wiring = &app.wiring;
    let found = || {
        let files = files_below(wiring.data()).into_iter();
        let has = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(MARKER.len()).any(|part| part == MARKER.as_bytes())
        };
        files.filter(has).collect::<Vec<_>>()
    };
    for number in 0..30 {
        let (name, email) =
            (format!("--name={MARKER} {number}"), format!("--email={MARKER}{number}@a.example"));
        run(wiring, &["people", "invite", "--client=1", &name, &email]);
    }
    let change = format!("--name={}", MARKER.repeat(9));
    run(wiring, &["people", "change", "7", &change]);
    assert!(!found().is_empty());
    for number in 1..=30 {
        let erased = run(wiring, &["people", "erase", &number.to_string(), "--yes"]);
        assert_eq!(erased, format!("person {number} is now \"former user\"\n"));
    }
    assert_eq!(found(), [""; 0].map(std::path::PathBuf::from));
}
