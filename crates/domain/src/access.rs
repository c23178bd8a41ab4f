//! The log of reads and changes: one row for each use of an order (16 CFR 314.4(c)(8)).

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use time::{Duration, OffsetDateTime};

use crate::{
    api_key::{ApiKeyId, Party},
    entropy::Entropy,
    order::OrderId,
    people::EmailAddress,
    person::{Doer, PersonId},
};

/// The identifier of one start of an instance, or of one command. It is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub i64);

impl RunId {
    /// Returns a new random identifier, which is not negative.
    pub fn random(entropy: &dyn Entropy) -> Self {
        Self(i64::from_be_bytes(entropy.bytes()) & i64::MAX)
    }

    /// Returns the identifier of the run that follows this one in its process.
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & i64::MAX)
    }
}

/// The identifier of an access. The numbers of a run begin with 1 and leave none out. Within a run, the
/// instants increase with the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessId {
    /// The instant when the number was given.
    pub at: OffsetDateTime,
    /// The run.
    pub run: RunId,
    /// The number within the run.
    pub number: u64,
}

/// The identifier of an access in the API. Within a run it is the instant's: no two accesses of a run have one
/// instant. It has no number, because the numbers of a run count the accesses of all parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicAccessId {
    /// The instant of the access.
    pub at: OffsetDateTime,
    /// Its run.
    pub run: RunId,
}

impl From<AccessId> for PublicAccessId {
    fn from(AccessId { at, run, .. }: AccessId) -> Self {
        Self { at, run }
    }
}

/// Writes `1796385600000000-5f3a…-0`: the microsecond, the run, and 0. Version 0.1.0 had the number there, and
/// clients that were generated from its OpenAPI document demand a third part.
impl fmt::Display for PublicAccessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, run } = self;
        let micros = at.unix_timestamp_nanos() / 1_000;
        write!(formatter, "{micros}-{:x}-0", run.0.cast_unsigned())
    }
}

/// A text that is no identifier of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no identifier of an access")]
pub struct NoAccessId;

impl FromStr for PublicAccessId {
    type Err = NoAccessId;

    /// Reads also what version 0.1.0 has written, with any number.
    fn from_str(text: &str) -> Result<Self, NoAccessId> {
        let read = || {
            let mut parts = text.splitn(3, '-');
            let micros: i64 = parts.next()?.parse().ok()?;
            let run = u64::from_str_radix(parts.next()?, 16).ok()?;
            let number: u64 = parts.next()?.parse().ok()?;
            let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).ok()?;
            let id = Self { at, run: RunId(run.cast_signed()) };
            let written = id.to_string();
            (text == format!("{}{number}", written.strip_suffix('0')?)).then_some(id)
        };
        read().ok_or(NoAccessId)
    }
}

/// A use of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Its details were read.
    Read,
    /// Its history was read.
    ReadHistory,
    /// Its notes were read.
    ReadNotes,
    /// Its accesses were read.
    ReadAccesses,
    /// Orders were listed.
    List,
    /// The records of its documents were listed.
    ListDocuments,
    /// The records of its signed documents were listed.
    ListSignedDocuments,
    /// A document was downloaded.
    Download,
    /// A signed document was downloaded.
    DownloadSigned,
    /// All its documents were downloaded.
    DownloadAll,
    /// All its signed documents were downloaded.
    DownloadAllSigned,
    /// Its status or its notary was set (`PATCH`).
    Update,
    /// Its client changed its details (`PUT`).
    Change,
    /// It was cancelled.
    Cancel,
    /// It got documents.
    AddDocuments,
    /// It got signed documents.
    AddSignedDocuments,
    /// A document was withdrawn.
    Withdraw,
    /// A signed document was withdrawn.
    WithdrawSigned,
    /// It got a note.
    AddNote,
    /// An operator exported it with its documents.
    Export,
    /// It was erased.
    Erase,
    /// Its documents alone were erased.
    EraseDocuments,
    /// It was put on hold: it cannot be erased.
    Hold,
    /// Its hold was ended.
    Release,
    /// Requests of a key, a person or a site were refused, and have no rows of their own: see [`REFUSED_ROWS`].
    Refused,
    /// A person signed in, or tried to: the outcome says why not.
    SignIn,
    /// A person signed out.
    SignOut,
    /// A person was invited, or invited again.
    Invite,
    /// The invitation of a person was withdrawn.
    WithdrawInvitation,
    /// The name, the address or the role of a person was changed, or they were disabled or enabled.
    ChangePerson,
    /// Sessions of a person were ended.
    EndSessions,
    /// A person got one more passkey.
    AddPasskey,
    /// A passkey of a person was removed.
    RemovePasskey,
    /// A person was erased.
    ErasePerson,
    /// A key was issued.
    IssueKey,
    /// A key got a successor.
    RotateKey,
    /// A key was revoked.
    RevokeKey,
    /// A webhook was created.
    CreateWebhook,
    /// A webhook was changed.
    ChangeWebhook,
    /// A webhook was deleted.
    DeleteWebhook,
    /// A webhook got another secret.
    RotateWebhook,
}

impl AccessKind {
    /// All kinds, with their stored names.
    pub const ALL: [(Self, &'static str); 41] = [
        (Self::Read, "read"),
        (Self::ReadHistory, "read_history"),
        (Self::ReadNotes, "read_notes"),
        (Self::ReadAccesses, "read_accesses"),
        (Self::List, "list"),
        (Self::ListDocuments, "list_documents"),
        (Self::ListSignedDocuments, "list_signed_documents"),
        (Self::Download, "download"),
        (Self::DownloadSigned, "download_signed"),
        (Self::DownloadAll, "download_all"),
        (Self::DownloadAllSigned, "download_all_signed"),
        (Self::Update, "update"),
        (Self::Change, "change"),
        (Self::Cancel, "cancel"),
        (Self::AddDocuments, "add_documents"),
        (Self::AddSignedDocuments, "add_signed_documents"),
        (Self::Withdraw, "withdraw"),
        (Self::WithdrawSigned, "withdraw_signed"),
        (Self::AddNote, "add_note"),
        (Self::Export, "export"),
        (Self::Erase, "erase"),
        (Self::EraseDocuments, "erase_documents"),
        (Self::Hold, "hold"),
        (Self::Release, "release"),
        (Self::Refused, "refused"),
        (Self::SignIn, "sign_in"),
        (Self::SignOut, "sign_out"),
        (Self::Invite, "invite"),
        (Self::WithdrawInvitation, "withdraw_invitation"),
        (Self::ChangePerson, "change_person"),
        (Self::EndSessions, "end_sessions"),
        (Self::AddPasskey, "add_passkey"),
        (Self::RemovePasskey, "remove_passkey"),
        (Self::ErasePerson, "erase_person"),
        (Self::IssueKey, "issue_key"),
        (Self::RotateKey, "rotate_key"),
        (Self::RevokeKey, "revoke_key"),
        (Self::CreateWebhook, "create_webhook"),
        (Self::ChangeWebhook, "change_webhook"),
        (Self::DeleteWebhook, "delete_webhook"),
        (Self::RotateWebhook, "rotate_webhook"),
    ];

    /// The kinds that show data of one order: reads, and changes that are answered with the order.
    pub const SHOWING: [Self; 12] = [
        Self::Read,
        Self::ReadHistory,
        Self::ReadNotes,
        Self::ListDocuments,
        Self::ListSignedDocuments,
        Self::Download,
        Self::DownloadSigned,
        Self::DownloadAll,
        Self::DownloadAllSigned,
        Self::Update,
        Self::Change,
        Self::Cancel,
    ];

    /// The kinds that no side of an order sees: they would tell of a hold for litigation, or are of no single
    /// order. Those of people, keys and webhooks name no order at all.
    pub const OF_OPERATORS: [Self; 22] = [
        Self::List,
        Self::Erase,
        Self::EraseDocuments,
        Self::Hold,
        Self::Release,
        Self::Refused,
        Self::SignIn,
        Self::SignOut,
        Self::Invite,
        Self::WithdrawInvitation,
        Self::ChangePerson,
        Self::EndSessions,
        Self::AddPasskey,
        Self::RemovePasskey,
        Self::ErasePerson,
        Self::IssueKey,
        Self::RotateKey,
        Self::RevokeKey,
        Self::CreateWebhook,
        Self::ChangeWebhook,
        Self::DeleteWebhook,
        Self::RotateWebhook,
    ];

    /// Returns the kind of a stored name; `None` for that of a newer version.
    pub fn from_stored(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, stored)| *stored == name).map(|(kind, _)| *kind)
    }

    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// The actor of an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessActor {
    /// An API key.
    Key {
        /// The key.
        id: ApiKeyId,
        /// The client or the signing service that owns it.
        party: Party,
    },
    /// A person.
    Person {
        /// The person.
        id: PersonId,
        /// Their side.
        party: Party,
    },
    /// Somebody who was not signed in.
    Nobody,
    /// An operator.
    Operator {
        /// The command, such as `orders show`.
        command: String,
        /// The user of the operating system that ran it.
        user: String,
    },
}

/// The facts of an access before it has a number and an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessFacts {
    /// The use.
    pub kind: AccessKind,
    /// The order as asked for: it may not exist. `None` for a list, and for what is no identifier.
    pub order: Option<OrderId>,
    /// How many orders a list had, or how many requests a row of [`AccessKind::Refused`] counts.
    pub orders: Option<u32>,
    /// The position of the document.
    pub position: Option<u32>,
    /// The person, the key or the webhook that was changed, or the person or key that signed in; the kind says which.
    pub subject: Option<i64>,
    /// The actor.
    pub actor: AccessActor,
    /// The address of the peer; `None` for a command.
    pub address: Option<IpAddr>,
    /// The request; `None` for a command.
    pub request_id: Option<String>,
}

impl AccessFacts {
    /// Returns whether a key or a person was refused, if this is the outcome. The order may be of others then.
    pub fn are_refused(&self, outcome: &str) -> bool {
        let is_refusable = !matches!(self.actor, AccessActor::Operator { .. });
        is_refusable && !GRANTED.contains(&outcome)
    }
}

/// Outcome: success.
pub const DONE: &str = "ok";
/// Outcome: the client already has this version.
pub const NOT_MODIFIED: &str = "not_modified";

/// The outcomes of a use that was granted. All others are refusals.
pub const GRANTED: [&str; 2] = [DONE, NOT_MODIFIED];

/// Outcome: the row counts requests.
pub const COUNTED: &str = "counted";

/// Maximum number of rows of refused requests that a key, a person, or all further strangers add in [`REFUSED_WINDOW`],
/// in each run. Rows of the kind [`AccessKind::Refused`] count the others: a stranger who asks for orders without end
/// fills no database.
pub const REFUSED_ROWS: u32 = 1_000;

/// The same for strangers of one site, so that an attacker hides no refusals of others.
pub const REFUSED_ROWS_OF_SITE: u32 = 100;

/// Maximum number of keys, people and sites with refused requests within [`REFUSED_WINDOW`]. Strangers of further sites
/// share [`REFUSED_ROWS`].
pub const MAX_REFUSED: usize = 1_000;

/// Bits of an IPv6 address that a whole site has in common (RFC 6177, section 2).
pub const SITE_BITS: u32 = 48;

/// Returns the network of an IPv6 address, which has these first bits, or an IPv4 address.
pub fn network_of(address: IpAddr, bits: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits))).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// The time in which the refused requests of a key, a person or a site are counted.
pub const REFUSED_WINDOW: Duration = Duration::HOUR;

/// Outcome: the request was dropped, because the client disconnected or the service stopped.
pub const UNFINISHED: &str = "unfinished";

/// One use of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Its identifier.
    pub id: AccessId,
    /// Its facts.
    pub facts: AccessFacts,
    /// [`DONE`], [`NOT_MODIFIED`], [`UNFINISHED`], [`COUNTED`], or the `code` of the problem that was answered.
    pub outcome: String,
}

impl Access {
    /// Returns the key or the person who acts; `None` for an operator.
    pub fn doer(&self) -> Option<Doer> {
        match self.facts.actor {
            AccessActor::Key { id, .. } => Some(Doer::Key(id)),
            AccessActor::Person { id, .. } => Some(Doer::Person(id)),
            AccessActor::Operator { .. } | AccessActor::Nobody => None,
        }
    }
}

/// A mail about a key that reads more orders than the operator expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyKeyNotice {
    /// The key.
    pub key: ApiKeyId,
    /// Its name.
    pub name: String,
    /// How many different orders it has read.
    pub orders: u64,
    /// The instant of the alert. The orders were read in the hour before.
    pub at: OffsetDateTime,
    /// Address that receives the mail.
    pub recipient: EmailAddress,
}

impl BusyKeyNotice {
    /// Returns the key of the mail, from which its `Message-ID` is derived.
    pub fn message_key(&self) -> String {
        format!("accesses{}at{}", self.key.0, self.at.unix_timestamp())
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn identifier_is_read_back_from_its_text() {
        let at = datetime!(2026-11-28 12:00:00.000017 UTC);
        for run in [1, i64::MAX, -1] {
            let id = PublicAccessId { at, run: RunId(run) };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    /// Two identifiers would tell how many accesses of others lie between.
    #[test]
    fn identifier_has_no_number() {
        let at = datetime!(2026-11-28 12:00:00.000017 UTC);
        let of_number = |number| PublicAccessId::from(AccessId { at, run: RunId(255), number });
        assert_eq!([1, 900].map(|it| of_number(it).to_string()), ["1795867200000017-ff-0"; 2]);
        // As version 0.1.0 has written it.
        assert_eq!("1795867200000017-ff-900".parse(), Ok(of_number(900)));
    }

    #[test]
    fn other_texts_are_no_identifiers() {
        for text in [
            "",
            "7",
            "1-2",
            "1-2-3-4",
            "1-2-",
            "-1-2-x",
            "01-2-3",
            "1-FF-3",
            "1-f-03",
            "1-+f-3",
            "1-2-+3",
            "1-g-3",
            "99999999999999999999-1-1",
            "9223372036854775807-1-1",
        ] {
            assert_eq!(text.parse::<PublicAccessId>(), Err(NoAccessId), "{text}");
        }
    }
}
