//! The contract of `SecretBox`.

use domain::{
    ports::{SecretBox, Unreadable},
    webhook::secret::WebhookSecret,
};

/// Makes the boxes under test.
pub trait SecretBoxFixture {
    /// Returns a box whose keys are made of these bytes.
    fn with_keys(&self, keys: &[u8]) -> Box<dyn SecretBox>;
}

const SECRET: [u8; WebhookSecret::BYTES] = *b"thirty-two bytes, a whole secret";

fn secret() -> WebhookSecret {
    WebhookSecret::from(SECRET)
}

/// Also after a restart: another box with the same key opens it.
pub fn secret_opens_with_its_key_and_context(fixture: &dyn SecretBoxFixture) {
    for context in ["endpoint 1", ""] {
        let sealed = fixture.with_keys(&[1]).seal(&secret(), context);
        assert_eq!(fixture.with_keys(&[1]).open(&sealed, context).unwrap(), secret());
    }
}

/// A secret that was copied to another client does not sign there.
pub fn other_key_or_context_is_unreadable(fixture: &dyn SecretBoxFixture) {
    let sealed = fixture.with_keys(&[1]).seal(&secret(), "endpoint 1");
    assert_eq!(fixture.with_keys(&[2]).open(&sealed, "endpoint 1"), Err(Unreadable));
    assert_eq!(fixture.with_keys(&[1]).open(&sealed, "endpoint 2"), Err(Unreadable));
    assert_eq!(fixture.with_keys(&[1]).open(&sealed, ""), Err(Unreadable));
}

/// A secret moves to another key while instances run, which have both.
pub fn first_key_encrypts_and_all_keys_decrypt(fixture: &dyn SecretBoxFixture) {
    let both = fixture.with_keys(&[2, 1]);
    for (at, key) in [2, 1].into_iter().enumerate() {
        let sealed = fixture.with_keys(&[key]).seal(&secret(), "endpoint 1");
        assert_eq!(both.open(&sealed, "endpoint 1").unwrap(), secret());
        assert_eq!(both.key_of(&sealed, "endpoint 1"), Ok(at));
        assert_eq!(both.key_of(&sealed, "endpoint 2"), Err(Unreadable));
    }
    let sealed = both.seal(&secret(), "endpoint 1");
    assert_eq!(fixture.with_keys(&[2]).open(&sealed, "endpoint 1").unwrap(), secret());
    assert_eq!(fixture.with_keys(&[1, 3]).open(&sealed, "endpoint 1"), Err(Unreadable));
    assert_eq!(fixture.with_keys(&[1, 3]).key_of(&sealed, "endpoint 1"), Err(Unreadable));
}

/// Covers one changed bit at each position, and each length.
pub fn changed_bytes_are_unreadable(fixture: &dyn SecretBoxFixture) {
    let secrets = fixture.with_keys(&[1]);
    let sealed = secrets.seal(&secret(), "endpoint 1");
    for position in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[position] ^= 1;
        assert_eq!(secrets.open(&changed, "endpoint 1"), Err(Unreadable), "byte {position}");
        assert_eq!(secrets.open(&sealed[..position], "endpoint 1"), Err(Unreadable));
    }
    let longer = [&sealed[..], &[0]].concat();
    assert_eq!(secrets.open(&longer, "endpoint 1"), Err(Unreadable));
}

/// The table does not show that two endpoints have the same secret, and not even eight bytes in a
/// row of one.
pub fn equal_secrets_have_different_sealed_bytes(fixture: &dyn SecretBoxFixture) {
    let secrets = fixture.with_keys(&[1]);
    let mut sealed: Vec<_> = (0..100).map(|_| secrets.seal(&secret(), "endpoint 1")).collect();
    for part in SECRET.windows(8) {
        assert!(sealed[0].windows(8).all(|window| window != part));
    }
    sealed.sort_unstable();
    sealed.dedup();
    assert_eq!(sealed.len(), 100);
}
