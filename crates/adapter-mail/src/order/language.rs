//! Names of languages.

/// The languages that signers in the United States speak most, by their ISO 639 codes.
const NAMES: &str = "\
    am Amharic, ar Arabic, ase American Sign Language, bn Bengali, bs Bosnian, cmn Mandarin Chinese, \
    cs Czech, da Danish, de German, el Greek, en English, es Spanish, fa Persian, fi Finnish, \
    fil Filipino, fr French, gu Gujarati, he Hebrew, hi Hindi, hmn Hmong, hr Croatian, \
    ht Haitian Creole, hu Hungarian, hy Armenian, id Indonesian, ig Igbo, it Italian, ja Japanese, \
    km Khmer, kn Kannada, ko Korean, lo Lao, ml Malayalam, mr Marathi, my Burmese, ne Nepali, \
    nl Dutch, no Norwegian, nv Navajo, pa Punjabi, pl Polish, ps Pashto, pt Portuguese, ro Romanian, \
    ru Russian, so Somali, sq Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, \
    th Thai, ti Tigrinya, tl Tagalog, tr Turkish, uk Ukrainian, ur Urdu, vi Vietnamese, yi Yiddish, \
    yo Yoruba, yue Cantonese, zh Chinese";

/// Returns the English name of a language code, such as `es` or `es-MX`. Any other text, such as
/// `Spanish`, is already in words.
pub(crate) fn language_name(language: &str) -> String {
    let (code, region) = language.split_at(language.find(['-', '_']).unwrap_or(language.len()));
    let mut names = NAMES.split(", ").filter_map(|entry| entry.split_once(' '));
    match names.find(|(known, _)| known.eq_ignore_ascii_case(code)) {
        Some((_, name)) if region.is_empty() => name.to_owned(),
        // The region may matter, such as in `zh-Hant` and `pt-BR`.
        Some((_, name)) => format!("{name} ({language})"),
        None => language.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_words_stay() {
        for (language, shown) in [
            ("en", "English"),
            ("ES", "Spanish"),
            ("ht", "Haitian Creole"),
            ("es-MX", "Spanish (es-MX)"),
            ("zh_Hant", "Chinese (zh_Hant)"),
            ("Spanish", "Spanish"),
            ("Spanish, interpreter needed", "Spanish, interpreter needed"),
            ("no preference", "no preference"),
            ("xx", "xx"),
            ("en - or es", "en - or es"),
            ("", ""),
        ] {
            assert_eq!(language_name(language), shown);
        }
    }
}
