//! Tests with an authenticator of 1Password. Each step has a value of its own: any instance finishes what another began.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    api_key::{ClientId, Party},
    people::EmailAddress,
    person::{
        Credential, CredentialId, NewPerson, Origin, Person, PersonId, PersonName, Role, UserHandle,
    },
    ports::{BegunPasskey, PasskeyFault, Passkeys as _},
};
use serde_json::{Value, json};
use test_servers::authenticator::{Algorithm, Authenticator};
use time::macros::datetime;

use crate::WebAuthn;

const ORIGIN: &str = "https://orders.example.com";
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256];

fn origin(text: &str) -> Origin {
    Origin::parse(text).unwrap()
}

/// Returns a person whose identifier has only bytes of this value.
fn person(handle: u8) -> Person {
    Person {
        id: PersonId(i64::from(handle)),
        person: NewPerson {
            party: Party::Client(ClientId(1)),
            name: PersonName::new("Jane Doe").unwrap(),
            email: Some(EmailAddress::from_stored("jane@title.example.com".to_owned())),
            role: Role::Member,
            handle: UserHandle([handle; 64]),
            invited_at: datetime!(2026-11-29 12:00 UTC),
        },
        accepted_at: None,
        disabled_at: None,
        erased_at: None,
        last_seen_at: None,
    }
}

fn begin_registration(existing: &[CredentialId]) -> BegunPasskey {
    WebAuthn::new().begin_registration(&origin(ORIGIN), &person(1), existing).unwrap()
}

fn finish_registration(begun: &BegunPasskey, answer: &str) -> Result<Credential, PasskeyFault> {
    WebAuthn::new().finish_registration(&origin(ORIGIN), &person(1), &begun.state, answer)
}

fn begin_sign_in() -> BegunPasskey {
    WebAuthn::new().begin_sign_in(&origin(ORIGIN)).unwrap()
}

fn finish_sign_in(
    credential: &Credential,
    begun: &BegunPasskey,
    answer: &str,
) -> Result<Vec<u8>, PasskeyFault> {
    WebAuthn::new().finish_sign_in(&origin(ORIGIN), &person(1), credential, &begun.state, answer)
}

/// Registers a passkey of person 1.
fn registered(authenticator: &mut Authenticator) -> Credential {
    let begun = begin_registration(&[]);
    let answer = authenticator.create(&begun.options, ORIGIN).unwrap();
    finish_registration(&begun, &answer).unwrap()
}

/// Signs person 1 in, and stores what the sign-in has changed.
fn sign_in(
    authenticator: &mut Authenticator,
    credential: &mut Credential,
) -> Result<(), PasskeyFault> {
    let begun = begin_sign_in();
    let answer = authenticator.get(&begun.options, ORIGIN).unwrap();
    assert!(WebAuthn::new().named_credential(&answer).unwrap() == credential.id);
    credential.changing = finish_sign_in(credential, &begun, &answer)?;
    Ok(())
}

/// Returns why an answer does not count.
fn fault<T>(result: Result<T, PasskeyFault>) -> String {
    let PasskeyFault(cause) = result.map(|_| ()).unwrap_err();
    cause.to_string()
}

fn edited(json: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::from_str(json).unwrap();
    edit(&mut value);
    value.to_string()
}

/// Edits the bytes of a member of `response`.
fn forged(answer: &str, member: &str, forge: impl FnOnce(&mut Vec<u8>)) -> String {
    edited(answer, |answer| {
        let text = answer["response"][member].as_str().unwrap();
        let mut bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
        forge(&mut bytes);
        answer["response"][member] = URL_SAFE_NO_PAD.encode(bytes).into();
    })
}

fn replace(bytes: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes.splice(at..at + from.len(), to.iter().copied());
}

#[test]
fn registration_asks_for_a_verified_user_a_discoverable_passkey_and_no_attestation() {
    let existing = [CredentialId(vec![7; 16]), CredentialId(vec![8; 1023])];
    let mut options: Value = serde_json::from_str(&begin_registration(&existing).options).unwrap();
    let challenge = options["challenge"].take();
    assert_eq!(URL_SAFE_NO_PAD.decode(challenge.as_str().unwrap()).unwrap().len(), 16);
    let excluded = existing.each_ref().map(
        |id| json!({"type": "public-key", "id": URL_SAFE_NO_PAD.encode(&id.0), "transports": []}),
    );
    let expected = json!({
        "rp": {"name": "notary-orders", "id": "orders.example.com"},
        "user": {
            "name": "jane@title.example.com",
            "id": URL_SAFE_NO_PAD.encode([1; 64]),
            "displayName": "Jane Doe",
        },
        "challenge": null,
        "pubKeyCredParams": [
            {"type": "public-key", "alg": -8},
            {"type": "public-key", "alg": -7},
            {"type": "public-key", "alg": -257},
        ],
        "timeout": 600_000,
        "excludeCredentials": excluded,
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": true,
            "userVerification": "required",
        },
        "hints": [],
        "attestation": "none",
        "attestationFormats": ["none"],
        "extensions": {},
    });
    assert_eq!(options, expected);
}

#[test]
fn sign_in_asks_for_a_verified_user_and_names_no_passkey() {
    let mut options: Value = serde_json::from_str(&begin_sign_in().options).unwrap();
    assert_eq!(options["challenge"].take().as_str().map(str::len), Some(22));
    let expected = json!({
        "challenge": null,
        "timeout": 600_000,
        "rpId": "orders.example.com",
        "allowCredentials": [],
        "userVerification": "required",
        "hints": [],
        "extensions": {},
    });
    assert_eq!(options, expected);
}

#[test]
fn authenticators_show_the_name_of_a_person_as_it_is() {
    let mut first = person(1);
    first.person.email = None;
    for name in ["First admin", "Анна 🙂 O’Neil", "  Zoë   van der Berg"] {
        first.person.name = PersonName::from_stored(name.to_owned());
        let begun = WebAuthn::new().begin_registration(&origin(ORIGIN), &first, &[]).unwrap();
        let options: Value = serde_json::from_str(&begun.options).unwrap();
        assert_eq!(
            (&options["user"]["name"], &options["user"]["displayName"]),
            (&json!(name), &json!(name))
        );
    }
}

#[test]
fn each_ceremony_has_another_challenge() {
    let challenges =
        [begin_registration(&[]), begin_registration(&[]), begin_sign_in(), begin_sign_in()].map(
            |begun| serde_json::from_str::<Value>(&begun.options).unwrap()["challenge"].take(),
        );
    for (index, challenge) in challenges.iter().enumerate() {
        assert!(!challenges[..index].contains(challenge), "{challenges:?}");
    }
}

#[test]
fn person_signs_in_with_each_algorithm() {
    for algorithm in ALGORITHMS {
        let mut authenticator = Authenticator::of(algorithm);
        let mut credential = registered(&mut authenticator);
        for _ in 0..2 {
            sign_in(&mut authenticator, &mut credential).unwrap();
        }
    }
}

#[test]
fn passkeys_work_on_localhost_and_on_another_port() {
    for place in ["http://localhost:8080", "https://localhost", "https://orders.example.com:8443"] {
        let mut authenticator = Authenticator::new();
        let begun = WebAuthn::new().begin_registration(&origin(place), &person(1), &[]).unwrap();
        let answer = authenticator.create(&begun.options, place).unwrap();
        let credential = WebAuthn::new()
            .finish_registration(&origin(place), &person(1), &begun.state, &answer)
            .unwrap();
        let begun = WebAuthn::new().begin_sign_in(&origin(place)).unwrap();
        let answer = authenticator.get(&begun.options, place).unwrap();
        let place = origin(place);
        let passkeys = WebAuthn::new();
        passkeys.finish_sign_in(&place, &person(1), &credential, &begun.state, &answer).unwrap();
    }
}

/// A browser signs for the page's own origin, whatever the page asks for.
#[test]
fn answer_of_another_origin_or_port_is_rejected() {
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    for place in ["https://orders.example.com:8443", "https://evil.orders.example.com"] {
        let begun = begin_registration(&[]);
        let answer = authenticator.clone().create(&begun.options, place).unwrap();
        assert!(fault(finish_registration(&begun, &answer)).contains("origin"), "{place}");
        let begun = begin_sign_in();
        let answer = authenticator.get(&begun.options, place).unwrap();
        assert!(fault(finish_sign_in(&credential, &begun, &answer)).contains("origin"), "{place}");
    }
}

#[test]
fn browser_gives_no_answer_to_a_page_of_another_host() {
    let mut authenticator = Authenticator::new();
    registered(&mut authenticator);
    for place in ["https://evil.example", "https://example.com", "https://orders-example.com"] {
        assert!(authenticator.create(&begin_registration(&[]).options, place).is_err(), "{place}");
        assert!(authenticator.get(&begin_sign_in().options, place).is_err(), "{place}");
    }
}

/// As a page of another host that passes the challenge on, with a passkey for that host.
#[test]
fn answer_for_another_relying_party_is_rejected() {
    let mut authenticator = Authenticator::new();
    let mut credential = registered(&mut authenticator);
    let evil = "https://evil.orders.example.com";
    let begun = begin_registration(&[]);
    let options =
        edited(&begun.options, |options| options["rp"]["id"] = "evil.orders.example.com".into());
    let answer = authenticator.create(&options, evil).unwrap();
    let claimed = forged(&answer, "clientDataJSON", |data| {
        replace(data, b"https://evil.", b"https://");
    });
    for answer in [&answer, &claimed] {
        finish_registration(&begun, answer).unwrap_err();
    }
    assert!(fault(finish_registration(&begun, &claimed)).contains("RP ID"));

    let begun = begin_sign_in();
    let options =
        edited(&begun.options, |options| options["rpId"] = "evil.orders.example.com".into());
    let answer = authenticator.get(&options, evil).unwrap();
    credential.id = WebAuthn::new().named_credential(&answer).unwrap();
    finish_sign_in(&credential, &begun, &answer).unwrap_err();
}

#[test]
fn unverified_user_is_rejected() {
    let careless = |options: &str| {
        edited(options, |options| {
            options["userVerification"] = "discouraged".into();
            options["authenticatorSelection"]["userVerification"] = "discouraged".into();
        })
    };
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    authenticator.verifies_user = false;
    assert!(authenticator.get(&begin_sign_in().options, ORIGIN).is_err());

    let begun = begin_sign_in();
    let answer = authenticator.get(&careless(&begun.options), ORIGIN).unwrap();
    assert!(fault(finish_sign_in(&credential, &begun, &answer)).contains("verified"));
    let begun = begin_registration(&[]);
    let answer = authenticator.create(&careless(&begun.options), ORIGIN).unwrap();
    assert!(fault(finish_registration(&begun, &answer)).contains("verified"));
}

#[test]
fn counter_must_grow_unless_it_is_always_zero() {
    let mut authenticator = Authenticator::new();
    authenticator.counts = true;
    let mut credential = registered(&mut authenticator);
    let mut copy = authenticator.clone();
    for _ in 0..3 {
        sign_in(&mut authenticator, &mut credential).unwrap();
    }
    // The copy still counts from one: 1, 2, 3, and then 4.
    for _ in 0..3 {
        let rejected = sign_in(&mut copy, &mut credential);
        assert!(fault(rejected).contains("sign"));
    }
    sign_in(&mut copy, &mut credential).unwrap();
    // The owner's key has 4 now, too: the copy is found out.
    sign_in(&mut authenticator, &mut credential).unwrap_err();

    for counter in [None, Some(0), Some(2)] {
        authenticator.set_counters(counter);
        assert!(fault(sign_in(&mut authenticator, &mut credential)).contains("sign"));
    }
    authenticator.set_counters(Some(u32::MAX - 1));
    sign_in(&mut authenticator, &mut credential).unwrap();
}

#[test]
fn answer_counts_for_its_challenge_only() {
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    let (first, second) = (begin_sign_in(), begin_sign_in());
    let answer = authenticator.get(&first.options, ORIGIN).unwrap();
    finish_sign_in(&credential, &first, &answer).unwrap();
    assert!(fault(finish_sign_in(&credential, &second, &answer)).contains("challenge"));

    let (first, second) = (begin_registration(&[]), begin_registration(&[]));
    let answer = authenticator.create(&first.options, ORIGIN).unwrap();
    finish_registration(&first, &answer).unwrap();
    assert!(fault(finish_registration(&second, &answer)).contains("challenge"));
}

#[test]
fn one_ceremony_does_not_finish_the_other() {
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    let (registration, sign_in) = (begin_registration(&[]), begin_sign_in());
    let created = authenticator.create(&registration.options, ORIGIN).unwrap();
    let signed = authenticator.get(&sign_in.options, ORIGIN).unwrap();
    finish_registration(&registration, &signed).unwrap_err();
    finish_registration(&sign_in, &created).unwrap_err();
    finish_sign_in(&credential, &sign_in, &created).unwrap_err();
    finish_sign_in(&credential, &registration, &signed).unwrap_err();
    WebAuthn::new().named_credential(&created).unwrap_err();
}

#[test]
fn credential_of_another_person_is_rejected() {
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    let begun = begin_sign_in();
    let answer = authenticator.get(&begun.options, ORIGIN).unwrap();
    let (passkeys, place) = (WebAuthn::new(), origin(ORIGIN));
    let as_other = passkeys.finish_sign_in(&place, &person(2), &credential, &begun.state, &answer);
    assert!(fault(as_other).contains("user handle"));
    // The browser says another person than the authenticator has: nobody signs that member.
    let renamed = edited(&answer, |answer| {
        answer["response"]["userHandle"] = URL_SAFE_NO_PAD.encode([2; 64]).into();
    });
    finish_sign_in(&credential, &begun, &renamed).unwrap_err();
    finish_sign_in(&credential, &begun, &answer).unwrap();

    let begun = begin_registration(&[]);
    let answer = authenticator.create(&begun.options, ORIGIN).unwrap();
    let as_other = passkeys.finish_registration(&place, &person(2), &begun.state, &answer);
    assert_eq!(fault(as_other), "the ceremony is of another person");
}

#[test]
fn another_credential_of_the_person_is_rejected() {
    let (mut first, mut second) = (Authenticator::new(), Authenticator::new());
    let (one, other) = (registered(&mut first), registered(&mut second));
    let begun = begin_sign_in();
    let answer = first.get(&begun.options, ORIGIN).unwrap();
    finish_sign_in(&other, &begun, &answer).unwrap_err();
    // The signature is of the key of `one`, whatever identifier the answer names.
    let renamed = edited(&answer, |answer| {
        answer["id"] = URL_SAFE_NO_PAD.encode(&other.id.0).into();
        answer["rawId"] = answer["id"].clone();
    });
    assert!(WebAuthn::new().named_credential(&renamed).unwrap() == other.id);
    assert!(fault(finish_sign_in(&other, &begun, &renamed)).contains("signature"));
    finish_sign_in(&one, &begun, &answer).unwrap();
}

#[test]
fn forged_answer_is_rejected() {
    for algorithm in ALGORITHMS {
        let mut authenticator = Authenticator::of(algorithm);
        let credential = registered(&mut authenticator);
        let begun = begin_sign_in();
        let answer = authenticator.get(&begun.options, ORIGIN).unwrap();
        let data = forged(&answer, "clientDataJSON", |data| {
            replace(data, b"\"crossOrigin\":false", b"\"crossOrigin\":null");
        });
        // Present, verified and backed up; then without a backup. The counter follows the flags.
        let flags = forged(&answer, "authenticatorData", |data| {
            replace(data, &[0x1d, 0, 0, 0, 0], &[0x0d, 0, 0, 0, 0]);
        });
        for answer in [data, flags] {
            finish_sign_in(&credential, &begun, &answer).unwrap_err();
        }
        finish_sign_in(&credential, &begun, &answer).unwrap();
    }
}

/// Authenticators may attest what they are, although nobody asks. The service trusts no such statement.
#[test]
fn attestation_by_a_certificate_is_rejected() {
    let begun = begin_registration(&[]);
    let answer = Authenticator::new().create(&begun.options, ORIGIN).unwrap();
    let attested = forged(&answer, "attestationObject", |object| {
        replace(object, b"\x64none", b"\x65apple");
    });
    finish_registration(&begun, &attested).unwrap_err();
    finish_registration(&begun, &answer).unwrap();
}

#[test]
fn authenticator_that_has_a_passkey_makes_no_second_one() {
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    let begun = begin_registration(&[CredentialId(vec![9; 32]), credential.id]);
    assert!(authenticator.create(&begun.options, ORIGIN).is_err());
    Authenticator::new().create(&begun.options, ORIGIN).unwrap();
}

/// As security keys do with Chromium, which asks them to protect their passkeys.
#[test]
fn unsolicited_extension_of_an_authenticator_is_accepted() {
    const EXTENSION: &[u8] = b"\xa1\x6bcredProtect\x03";
    let mut authenticator = Authenticator::new();
    let begun = begin_registration(&[]);
    let answer = authenticator.create(&begun.options, ORIGIN).unwrap();
    let extended = forged(&answer, "attestationObject", |object| {
        let key = b"authData\x58";
        let length =
            object.windows(key.len()).position(|window| window == key).unwrap() + key.len();
        object[length] += u8::try_from(EXTENSION.len()).unwrap();
        // The flags stand after the hash of the relying party: there are extensions.
        object[length + 1 + 32] |= 0x80;
        object.extend(EXTENSION);
    });
    let mut credential = finish_registration(&begun, &extended).unwrap();
    sign_in(&mut authenticator, &mut credential).unwrap();
}

/// As Chromium's `toJSON()`, and with members that it may have one day.
#[test]
fn hints_of_the_browser_do_not_matter() {
    let mut authenticator = Authenticator::new();
    let with_hints = |answer: &mut Value| {
        answer["authenticatorAttachment"] = "implanted".into();
        answer["clientExtensionResults"] = json!({
            "appid": false,
            "credProps": {"rk": true, "authenticatorDisplayName": "Chromium"},
            "prf": {"enabled": true, "results": {"first": "AAAA"}},
            "future": [1],
        });
        answer["future"] = json!({"a": null});
        answer["response"]["future"] = 1.into();
    };
    let begun = begin_registration(&[]);
    let answer = authenticator.create(&begun.options, ORIGIN).unwrap();
    let full = edited(&answer, |answer| {
        with_hints(answer);
        answer["response"]["transports"] = json!(["internal", "cable", "future", "internal"]);
        answer["response"]["publicKeyAlgorithm"] = (-65_535).into();
        answer["response"]["publicKey"] = Value::Null;
    });
    let credential = finish_registration(&begun, &full).unwrap();
    let plain = edited(&answer, |answer| {
        let members = answer.as_object_mut().unwrap();
        members.remove("authenticatorAttachment");
        members.remove("clientExtensionResults");
    });
    assert!(finish_registration(&begun, &plain).unwrap() == credential);

    let begun = begin_sign_in();
    let answer = authenticator.get(&begun.options, ORIGIN).unwrap();
    let full = edited(&answer, |answer| {
        with_hints(answer);
        answer["response"]["attestationObject"] = Value::Null;
    });
    let changed = finish_sign_in(&credential, &begun, &full).unwrap();
    // Nothing has changed: the authenticator does not count.
    assert_eq!(changed, credential.changing);
}

#[test]
fn malformed_messages_are_faults() {
    let mut authenticator = Authenticator::new();
    let credential = registered(&mut authenticator);
    let (registration, sign_in) = (begin_registration(&[]), begin_sign_in());
    let created = authenticator.create(&registration.options, ORIGIN).unwrap();
    let signed = authenticator.get(&sign_in.options, ORIGIN).unwrap();
    let mut malformed: Vec<String> =
        ["", "null", "[]", "{}", "\"\"", "{\"response\":null}"].map(str::to_owned).into();
    malformed.push("[".repeat(100_000));
    for answer in [&created, &signed] {
        for length in (0..answer.len()).step_by(5) {
            malformed.push(answer[..length].to_owned());
            malformed.push([&answer[..length], "A", &answer[length + 1..]].concat());
        }
        for member in ["id", "rawId", "response"] {
            malformed.push(edited(answer, |answer| answer[member] = "".into()));
        }
    }
    for answer in malformed.iter().filter(|answer| **answer != created && **answer != signed) {
        let _ = WebAuthn::new().named_credential(answer);
        if let Ok(made) = finish_registration(&registration, answer) {
            // Without attestation, nobody signs the key, the identifier or the counter.
            assert!(answer.contains("attestationObject"), "{answer}");
            assert!(made.id.0.len() >= 16);
        }
        // The letter may be in a hint.
        if let Ok(changed) = finish_sign_in(&credential, &sign_in, answer) {
            assert_eq!(changed, credential.changing, "{answer}");
        }
    }
    for state in [&[][..], &[0; 12], &[255; 200]] {
        let begun = BegunPasskey { options: String::new(), state: state.to_vec() };
        finish_registration(&begun, &created).unwrap_err();
        finish_sign_in(&credential, &begun, &signed).unwrap_err();
    }
    for (fixed, changing) in [(&[][..], &credential.changing[..]), (&credential.fixed, &[])] {
        let damaged = Credential {
            id: credential.id.clone(),
            fixed: fixed.to_vec(),
            changing: changing.to_vec(),
        };
        finish_sign_in(&damaged, &sign_in, &signed).unwrap_err();
    }
}

/// A later version of the library must read what is stored now.
#[test]
fn stored_credential_keeps_its_encoding() {
    let mut authenticator = Authenticator::of(Algorithm::Rs256);
    authenticator.counts = true;
    let made = registered(&mut authenticator);
    let golden = include_str!("../golden/rs256.txt");
    let (fixed, changing) = golden.trim_end().split_once('\n').unwrap();
    let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let mut stored =
        Credential { id: made.id.clone(), fixed: decoded(fixed), changing: decoded(changing) };
    assert!(stored == made, "the encoding has changed");
    sign_in(&mut authenticator, &mut stored).unwrap();
    assert_ne!(stored.changing, decoded(changing));
}

/// The log has the chain of causes.
#[test]
fn fault_has_the_words_of_the_library_as_its_cause() {
    let fault = finish_registration(&begin_registration(&[]), "{\"response\":{}}").unwrap_err();
    assert_eq!(fault.to_string(), "the passkey was not accepted");
    let PasskeyFault(cause) = fault;
    assert!(cause.to_string().contains("clientDataJSON"), "{cause}");
}
