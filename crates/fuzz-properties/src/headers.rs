use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use adapter_http::internals::{bearer, key_text};
use domain::{
    api_key::{ClientId, Owner, PresentedKey},
    idempotency::{IdempotencyKey, MAX_KEY_CHARS},
};

/// Credentials are read as in RFC 6750, section 2.1.
pub fn authorization(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let mut headers = HeaderMap::new();
    assert!(bearer(&headers).is_err());
    headers.insert(AUTHORIZATION, value.clone());
    let read = bearer(&headers).ok();

    let token = credentials(data);
    if token.is_some() {
        assert_eq!(read.map(str::as_bytes), token);
    }
    if let Some(read) = read {
        // The value has only the scheme, white space and the token.
        let text = std::str::from_utf8(data).unwrap().trim();
        assert!(
            text[..6].eq_ignore_ascii_case("bearer")
                && text.as_bytes()[6] == b' '
                && text[7..].trim() == read
        );
        assert!(read.bytes().all(|byte| byte.is_ascii_graphic()), "{read:?}");
        key(read);
    }
    headers.append(AUTHORIZATION, value);
    assert!(bearer(&headers).is_err(), "given twice");
}

/// Returns the token if the value has the grammar `"Bearer" 1*SP b64token`.
fn credentials(value: &[u8]) -> Option<&[u8]> {
    let rest = value.get(6..).filter(|_| value[..6].eq_ignore_ascii_case(b"bearer"))?;
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    let token = &rest[spaces..];
    let body = token.len() - token.iter().rev().take_while(|byte| **byte == b'=').count();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    (spaces > 0 && body > 0 && token[..body].iter().all(plain)).then_some(token)
}

/// Asserts that a token is a key exactly when it has the format of a key. `Debug` hides its secret.
fn key(token: &str) {
    let rest = token.strip_prefix("nok_").map(|rest| rest.strip_prefix("test_").unwrap_or(rest));
    let formed = rest.is_some_and(|rest| {
        rest.len() == 65
            && rest.bytes().enumerate().all(|(at, byte)| {
                if at == 16 { byte == b'_' } else { b"0123456789abcdef".contains(&byte) }
            })
    });
    let parsed = PresentedKey::parse(token);
    assert_eq!(parsed.is_some(), formed, "{token}");
    if let Some(key) = parsed {
        let rest = rest.unwrap();
        assert_eq!((key.expose(), key.lookup()), (token, &rest[..16]));
        assert!(!format!("{key:?}").contains(&rest[17..]));
    }
}

/// Asserts that a key is a String of RFC 9651, section 3.3.3, or bare characters. Both are equal.
pub fn idempotency_key(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let value = value.as_bytes().trim_ascii();
    let read = key_text(value);
    if value.first() == Some(&b'"') {
        let string = string(value);
        match &string {
            None => assert_eq!(read, None),
            Some((text, [])) => assert_eq!(read.as_ref(), Some(text)),
            // After the string only parameters are valid.
            Some((text, rest)) => {
                assert!(read.is_none() || rest[0] == b';' && read.as_ref() == Some(text));
            }
        }
    } else {
        let bare = value.iter().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(byte));
        assert_eq!(read.as_deref().map(str::as_bytes), bare.then_some(value));
    }
    let Some(text) = read else { return };
    let quoted: String = text
        .chars()
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect();
    assert_eq!(key_text(format!("\"{quoted}\"").as_bytes()).as_ref(), Some(&text));
    let key = IdempotencyKey::new(Owner::client(ClientId(1), false), &text);
    assert_eq!(key.is_some(), (1..=MAX_KEY_CHARS).contains(&text.chars().count()), "{text}");
    assert_eq!(key, IdempotencyKey::new(Owner::client(ClientId(1), false), &text));
}

/// Returns the text of a String and the rest, by the algorithm of RFC 9651, section 4.2.5.
fn string(value: &[u8]) -> Option<(String, &[u8])> {
    let (mut text, mut at) = (String::new(), 1);
    loop {
        match value.get(at)? {
            b'"' => return Some((text, &value[at + 1..])),
            b'\\' => {
                at += 1;
                text.push(char::from(*value.get(at).filter(|escaped| b"\"\\".contains(escaped))?));
            }
            byte @ 0x20..=0x7E => text.push(char::from(*byte)),
            _ => return None,
        }
        at += 1;
    }
}
