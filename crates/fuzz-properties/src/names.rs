use domain::document::{DocumentFormat, MAX_FILE_NAME_CHARS, sanitize_file_name};

/// Asserts that the name of a stored document is safe and keeps an accepted extension. It follows a
/// simple reading of the rule (spec section 4.2, document rule 2).
pub fn file_name(data: &[u8]) {
    let Ok(sent) = std::str::from_utf8(data) else { return };
    let stored = sanitize_file_name(sent);
    assert!((1..=MAX_FILE_NAME_CHARS).contains(&stored.len()), "{stored}");
    assert!(!stored.starts_with('.'), "{stored}");
    assert!(
        stored.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
        "{stored}"
    );
    assert_eq!(sanitize_file_name(&stored), stored);

    // Directories of any system are dropped, then surrounding white space.
    let last = sent.split(['/', '\\']).next_back().unwrap_or_default().trim();
    let announced = ["pdf", "doc", "docx", "jpg", "jpeg", "png"].into_iter().find(|extension| {
        let ending = format!(".{extension}");
        last.len() >= ending.len()
            && last.is_char_boundary(last.len() - ending.len())
            && last[last.len() - ending.len()..].eq_ignore_ascii_case(&ending)
    });
    assert_eq!(DocumentFormat::of_file_name(sent).is_some(), announced.is_some(), "{sent:?}");
    if let Some(extension) = announced {
        assert_eq!(DocumentFormat::of_file_name(&stored), DocumentFormat::of_file_name(sent));
        assert!(
            stored.ends_with(&last[last.len() - extension.len()..]),
            "{sent:?} became {stored}"
        );
    }
    let lead = if last.is_empty() {
        "document"
    } else if last.starts_with('.') {
        "_"
    } else {
        ""
    };
    let characters = last.chars().map(|c| {
        if matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '-' | '_') { c } else { '_' }
    });
    let plain: String = lead.chars().chain(characters).collect();
    if plain.len() <= MAX_FILE_NAME_CHARS {
        assert_eq!(stored, plain, "{sent:?}");
    } else {
        assert_eq!(stored.len(), MAX_FILE_NAME_CHARS);
        // Only a piece before the extension is missing.
        let same =
            stored.bytes().zip(plain.bytes()).take_while(|(one, other)| one == other).count();
        assert!(plain.ends_with(&stored[same..]), "{sent:?} became {stored}");
    }
}
