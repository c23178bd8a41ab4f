//! The installation to which a database belongs, and what its copies may send.

use std::fmt;

/// What identifies an installation. Its instances share both. A restore or a copy changes at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// What identifies the database, for example its file. A standby has the same.
    pub database: String,
    /// What identifies the document store, for example its bucket.
    pub documents: String,
}

impl fmt::Display for Installation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, with the documents in {}", self.database, self.documents)
    }
}

impl Installation {
    /// Returns whether another one is the same, and this one tells more of its database.
    pub fn completes(&self, other: &Self) -> bool {
        self.database.len() > other.database.len() && self.is_same(other)
    }

    fn is_same(&self, other: &Self) -> bool {
        is_same_database(&self.database, &other.database) && self.documents == other.documents
    }
}

/// Returns whether two texts identify one database. Their parts are separated by commas. A part that only one of
/// them has decides nothing: some file systems and kernels do not know the birth of a file.
pub fn is_same_database(one: &str, other: &str) -> bool {
    one.split(", ").zip(other.split(", ")).all(|(one, other)| one == other)
}

/// A database that belongs to another installation: it was restored or copied, or moved with its documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDatabase {
    /// The installation to which the database belongs.
    pub original: Installation,
    /// The one that uses it now.
    pub here: Installation,
}

impl CopiedDatabase {
    /// Returns the copy, if the recorded installation is another one.
    pub fn of(original: Installation, here: Installation) -> Option<Self> {
        (!original.is_same(&here)).then_some(Self { original, here })
    }
}

/// When mails and webhooks leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendsMessages {
    /// Unless the database is a copy.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl SendsMessages {
    /// Returns whether mails and webhooks leave.
    pub fn may_send(self, copy: Option<&CopiedDatabase>) -> bool {
        match self {
            Self::Auto => copy.is_none(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(database: &str, documents: &str) -> Installation {
        Installation { database: database.to_owned(), documents: documents.to_owned() }
    }

    #[test]
    fn other_database_or_document_store_makes_a_copy() {
        let original = installation("file 1", "/data/documents");
        for (here, is_copy) in [
            (original.clone(), false),
            (installation("file 2", "/data/documents"), true),
            (installation("file 1", "/copy/documents"), true),
        ] {
            assert_eq!(CopiedDatabase::of(original.clone(), here).is_some(), is_copy);
        }
    }

    #[test]
    fn part_that_one_side_does_not_know_makes_no_copy() {
        let [bare, born, reborn, other] =
            ["file 1", "file 1, born at 5", "file 1, born at 6", "file 2, born at 5"]
                .map(|database| installation(database, "/data/documents"));
        for (original, here, is_copy, completes) in [
            (&bare, &born, false, true),
            (&born, &bare, false, false),
            (&born, &born, false, false),
            (&born, &reborn, true, false),
            (&bare, &other, true, false),
        ] {
            let copy = CopiedDatabase::of(original.clone(), here.clone());
            assert_eq!((copy.is_some(), here.completes(original)), (is_copy, completes));
        }
    }

    #[test]
    fn copy_sends_only_if_the_setting_says_so() {
        let here = installation("file 2", "/data/documents");
        let copy = CopiedDatabase::of(installation("file 1", "/data/documents"), here);
        for (sends, original_may, copy_may) in [
            (SendsMessages::Auto, true, false),
            (SendsMessages::Always, true, true),
            (SendsMessages::Never, false, false),
        ] {
            assert_eq!(sends.may_send(None), original_may);
            assert_eq!(sends.may_send(copy.as_ref()), copy_may);
        }
    }
}
