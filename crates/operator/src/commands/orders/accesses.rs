//! The commands that list reads and changes of orders.

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::Result;
use clap::{Args, Subcommand};
use domain::{
    access::{Access, AccessActor, AccessFacts, AccessId, AccessKind},
    api_key::{ApiKeyId, Party},
    order::OrderId,
    person::{Doer, PersonId},
    ports::AccessFilter,
    use_cases::accesses::recorder::BegunAccess,
};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::commands::{
    keys::{KeyName, id_of, key_name},
    orders::operator::{NoOrder, Operator},
    output::{
        Column, Format, at, csv, has_printed, instant, json_lines, microsecond, on_terminal, table,
    },
};
use crate::{progress::counted, settings::values::listed};

/// Accesses that one query reads. A table has as many, and programs read all.
const PAGE: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum AccessesCommand {
    /// List the reads and changes of all orders, also refused ones, sign-ins, and changes of people and
    /// keys, with key, person or operator, address and outcome, the newest first
    List {
        /// Only those at this instant or later, such as 2026-12-01T08:00:00Z
        #[arg(long, value_name = "INSTANT", value_parser = instant)]
        since: Option<OffsetDateTime>,
        /// Only those by the key of this number or public part
        #[arg(long, value_name = "KEY", value_parser = key_name)]
        key: Option<KeyName>,
        /// Only those by the person of this number
        #[arg(long, value_name = "ID", value_parser = listed, conflicts_with = "key")]
        person: Option<i64>,
        /// Only those from this address
        #[arg(long, value_name = "IP")]
        address: Option<IpAddr>,
        #[command(flatten)]
        format: AccessFormat,
    },
}

/// How accesses are printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct AccessFormat {
    #[command(flatten)]
    list: Format,
    /// Print a table for a spreadsheet (CSV)
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl AccessesCommand {
    /// Returns the name of the command.
    pub(in crate::commands) fn name(&self) -> &'static str {
        match self {
            Self::List { .. } => "accesses list",
        }
    }
}

pub(in crate::commands) async fn run(command: AccessesCommand, operator: &Operator) -> Result<()> {
    let AccessesCommand::List { since, key, person, address, format } = command;
    let by = match key {
        Some(name) => Some(Doer::Key(ApiKeyId(id_of(&*operator.storage.keys, name).await?))),
        None => person.map(|id| Doer::Person(PersonId(id))),
    };
    let address = address.map(|address| address.to_canonical());
    let filter = AccessFilter { order: None, since, by, address };
    let access = operator.recording.begin_list(AccessKind::ReadAccesses, None);
    operator.print_accesses(access, &filter, format).await
}

impl Operator {
    /// Prints the accesses of an order, also of one that was erased.
    pub(in crate::commands) async fn accesses_of(
        &self,
        id: OrderId,
        format: AccessFormat,
    ) -> Result<()> {
        let access = self.recording.begin(AccessKind::ReadAccesses, id);
        let found = match self.storage.admin.order(id).await {
            Ok(None) => Err(NoOrder::Unknown(id.0).into()),
            found => found.map(drop).map_err(Into::into),
        };
        if found.is_err() {
            return self.recorded(access, found).await;
        }
        let filter = AccessFilter { order: Some(id), ..AccessFilter::default() };
        self.print_accesses(access, &filter, format).await
    }

    /// Returns the accesses of an order as a JSON array, newest first.
    pub(in crate::commands) async fn accesses_json(&self, id: OrderId) -> Result<String> {
        let filter = AccessFilter { order: Some(id), ..AccessFilter::default() };
        let mut lines = String::new();
        let mut before = None;
        loop {
            let page = self.page(&filter, before).await?;
            lines += &json_lines(&COLUMNS, &page);
            match next(&page) {
                Some(last) => before = Some(last),
                None => break,
            }
        }
        let items: Vec<&str> = lines.lines().collect();
        Ok(format!("[\n{}\n]\n", items.join(",\n")))
    }

    /// Prints accesses page by page. The access of this command is not among them.
    async fn print_accesses(
        &self,
        access: BegunAccess,
        filter: &AccessFilter,
        format: AccessFormat,
    ) -> Result<()> {
        let first = self.page(filter, None).await;
        let mut page = self.recorded(access, first).await?;
        let is_table = !format.csv && !format.list.is_json();
        let mut is_first = true;
        loop {
            let text = match format {
                AccessFormat { csv: true, .. } => csv(&COLUMNS, &page, is_first),
                _ if is_table => table(&OF_TABLE, on_terminal(&SHORTENED), &page),
                _ => json_lines(&COLUMNS, &page),
            };
            let (true, Some(last)) = (has_printed(&text)?, next(&page)) else { return Ok(()) };
            if is_table {
                eprintln!("only {PAGE} are listed; --csv and --json list all");
                return Ok(());
            }
            page = self.page(filter, Some(last)).await?;
            is_first = false;
        }
    }

    async fn page(&self, filter: &AccessFilter, before: Option<AccessId>) -> Result<Vec<Listed>> {
        let page = self.storage.accesses.list(filter, before, PAGE).await?;
        let doers: BTreeSet<_> = page.iter().filter_map(Access::doer).collect();
        let doers: Vec<_> = doers.into_iter().collect();
        let names = self.storage.people.names_of(&doers).await?;
        let listed = page.into_iter().map(|access| {
            let by = access.doer().and_then(|doer| names.get(&doer).cloned());
            Listed { access, by }
        });
        Ok(listed.collect())
    }
}

/// An access, and the name of its person or its key as it is now.
struct Listed {
    access: Access,
    by: Option<String>,
}

/// Returns where the next page begins, if there may be one.
fn next(page: &[Listed]) -> Option<AccessId> {
    page.last().filter(|_| page.len() == PAGE).map(|last| last.access.id)
}

/// The names of people, keys and operators on a terminal. Codes, identifiers and addresses are always whole.
const SHORTENED: [(&str, usize); 1] = [("BY", 30)];

const OF_TABLE: [Column<'_, Listed>; 6] = [
    ("WHEN", "", &|listed| at(listed.access.id.at)),
    ("WHAT", "", &|listed| json!(listed.access.facts.kind.as_str())),
    ("ORDER", "-", &|listed| json!(target(&listed.access))),
    ("BY", "", &|listed| json!(by(listed))),
    ("ADDRESS", "-", &|listed| json!(listed.access.facts.address)),
    ("OUTCOME", "", &|listed| json!(listed.access.outcome)),
];

const COLUMNS: [Column<'_, Listed>; 19] = [
    ("AT", "", &|listed| json!(microsecond(listed.access.id.at))),
    ("RUN", "", &|listed| json!(format!("{:x}", listed.access.id.run.0))),
    ("NUMBER", "", &|listed| json!(listed.access.id.number)),
    ("KIND", "", &|listed| json!(listed.access.facts.kind.as_str())),
    ("ORDER ID", "", &|listed| json!(listed.access.facts.order.map(|order| order.0))),
    ("ORDERS", "", &|listed| json!(listed.access.facts.orders)),
    ("POSITION", "", &|listed| json!(listed.access.facts.position)),
    ("ACTOR", "", &|listed| match (party(&listed.access), &listed.access.facts.actor) {
        (Some(Party::Client(_)), _) => json!("client"),
        (Some(Party::Service(_)), _) => json!("service"),
        (None, AccessActor::Nobody) => json!("nobody"),
        (None, _) => json!("operator"),
    }),
    ("CLIENT ID", "", &|listed| match party(&listed.access) {
        Some(Party::Client(client)) => json!(client.0),
        _ => Value::Null,
    }),
    ("SIGNING SERVICE ID", "", &|listed| match party(&listed.access) {
        Some(Party::Service(service)) => json!(service.0),
        _ => Value::Null,
    }),
    ("API KEY ID", "", &|listed| match listed.access.facts.actor {
        AccessActor::Key { id, .. } => json!(id.0),
        _ => Value::Null,
    }),
    ("COMMAND", "", &|listed| match &listed.access.facts.actor {
        AccessActor::Operator { command, .. } => json!(command),
        _ => Value::Null,
    }),
    ("USER", "", &|listed| match &listed.access.facts.actor {
        AccessActor::Operator { user, .. } => json!(user),
        _ => Value::Null,
    }),
    ("ADDRESS", "", &|listed| json!(listed.access.facts.address)),
    ("REQUEST ID", "", &|listed| json!(listed.access.facts.request_id)),
    ("OUTCOME", "", &|listed| json!(listed.access.outcome)),
    ("PERSON ID", "", &|listed| match listed.access.facts.actor {
        AccessActor::Person { id, .. } => json!(id.0),
        _ => Value::Null,
    }),
    ("SUBJECT ID", "", &|listed| json!(listed.access.facts.subject)),
    ("BY", "", &|listed| json!(listed.by)),
];

fn party(access: &Access) -> Option<Party> {
    match access.facts.actor {
        AccessActor::Key { party, .. } | AccessActor::Person { party, .. } => Some(party),
        AccessActor::Operator { .. } | AccessActor::Nobody => None,
    }
}

/// Describes what was used: an order, a document as `12/0`, how many orders, or a person or a key that was
/// changed.
fn target(Access { facts, .. }: &Access) -> Option<String> {
    if let Some(subject) = facts.subject {
        return subject_of(facts).map(|what| format!("{what} {subject}"));
    }
    Some(match (facts.order, facts.position, facts.orders) {
        (Some(order), Some(position), _) => format!("{}/{position}", order.0),
        (Some(order), ..) => order.0.to_string(),
        (None, _, Some(count)) if facts.kind == AccessKind::Refused => counted(&count, "request"),
        (None, _, Some(orders)) => counted(&orders, "order"),
        (None, _, None) => return None,
    })
}

/// Returns what the subject of an access is; `None` if the actor is shown, too, and is the same.
fn subject_of(facts: &AccessFacts) -> Option<&'static str> {
    match facts.kind {
        AccessKind::IssueKey | AccessKind::RotateKey | AccessKind::RevokeKey => Some("key"),
        AccessKind::CreateWebhook
        | AccessKind::ChangeWebhook
        | AccessKind::DeleteWebhook
        | AccessKind::RotateWebhook => Some("webhook"),
        AccessKind::SignIn | AccessKind::SignOut if facts.actor != AccessActor::Nobody => None,
        _ => Some("person"),
    }
}

fn by(Listed { access, by }: &Listed) -> String {
    let name = by.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    match &access.facts.actor {
        AccessActor::Key { id, .. } => format!("key {}{name}", id.0),
        AccessActor::Person { id, .. } => format!("person {}{name}", id.0),
        AccessActor::Operator { user, .. } => format!("operator {user}"),
        AccessActor::Nobody => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use domain::{access::RunId, api_key::ClientId};
    use time::macros::datetime;

    use super::*;

    fn access(actor: AccessActor) -> Listed {
        let at = datetime!(2026-11-28 16:40:00.123456 UTC);
        let facts = AccessFacts {
            kind: AccessKind::DownloadAllSigned,
            order: Some(OrderId(1_234_567_890)),
            orders: None,
            position: Some(99),
            subject: None,
            actor,
            address: Some("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap()),
            request_id: Some("=1+1".to_owned()),
        };
        let outcome = "idempotency_key_reused".to_owned();
        let access = Access { id: AccessId { at, run: RunId(255), number: 12 }, facts, outcome };
        Listed { access, by: None }
    }

    fn person() -> AccessActor {
        AccessActor::Person { id: PersonId(3), party: Party::Client(ClientId(2)) }
    }

    #[test]
    fn table_cuts_no_code_and_on_a_terminal_the_name_of_an_operator() {
        let user = "a.very.long.name.of.somebody@example.com".to_owned();
        let row = access(AccessActor::Operator { command: "orders show".to_owned(), user });
        let kinds = AccessKind::ALL.map(|(kind, _)| {
            let facts = AccessFacts { kind, ..row.access.facts.clone() };
            Listed { access: Access { facts, ..row.access.clone() }, by: None }
        });
        for (shortened, by) in [
            (&SHORTENED[..], "operator a.very.long.name.of.…"),
            (&[], "operator a.very.long.name.of.somebody@example.com"),
        ] {
            let printed = table(&OF_TABLE, shortened, &kinds);
            let end = "  2001:db8:1111:2222:3333:4444:5555:6666  idempotency_key_reused";
            let rows: Vec<_> = printed.lines().skip(1).collect();
            assert_eq!(rows.len(), kinds.len());
            for row in rows {
                assert!(row.contains("  1234567890/99  ") && row.contains(by), "{printed}");
                assert!(row.ends_with(end), "{printed}");
            }
        }
    }

    #[test]
    fn json_and_csv_have_every_fact() {
        let mut row =
            access(AccessActor::Key { id: ApiKeyId(4), party: Party::Client(ClientId(2)) });
        row.by = Some("=desk".to_owned());
        let line: Value =
            serde_json::from_str(&json_lines(&COLUMNS, std::slice::from_ref(&row))).unwrap();
        assert_eq!(
            line,
            json!({
                "at": "2026-11-28T16:40:00.123456Z", "run": "ff", "number": 12,
                "kind": "download_all_signed", "order_id": 1_234_567_890, "orders": null,
                "position": 99, "actor": "client", "client_id": 2, "signing_service_id": null,
                "api_key_id": 4, "command": null, "user": null,
                "address": "2001:db8:1111:2222:3333:4444:5555:6666", "request_id": "=1+1",
                "outcome": "idempotency_key_reused", "person_id": null, "subject_id": null,
                "by": "=desk",
            })
        );
        assert_eq!(
            csv(&COLUMNS, &[row], true),
            "at,run,number,kind,order_id,orders,position,actor,client_id,signing_service_id,\
             api_key_id,command,user,address,request_id,outcome,person_id,subject_id,by\r\n\
             2026-11-28T16:40:00.123456Z,ff,12,download_all_signed,1234567890,,99,client,2,,4,,,\
             2001:db8:1111:2222:3333:4444:5555:6666,'=1+1,idempotency_key_reused,,,'=desk\r\n"
        );
    }
    #[test]
    fn table_names_the_person_and_what_was_changed() {
        let mut rows = Vec::new();
        for (kind, actor, subject) in [
            (AccessKind::Invite, person(), Some(7)),
            (AccessKind::RevokeKey, person(), Some(8)),
            (AccessKind::SignIn, AccessActor::Nobody, Some(9)),
            (AccessKind::SignIn, person(), Some(3)),
            (AccessKind::SignOut, person(), Some(3)),
            (AccessKind::SignIn, AccessActor::Nobody, None),
        ] {
            let mut row = access(actor);
            row.by = row.access.doer().map(|_| "Ann Roe".to_owned());
            row.access.facts = AccessFacts {
                kind,
                subject,
                order: None,
                position: None,
                address: None,
                ..row.access.facts
            };
            rows.push(row);
        }
        let printed = table(&OF_TABLE, &[], &rows);
        let lines: Vec<Vec<_>> = printed
            .lines()
            .skip(1)
            .map(|line| line.split("  ").filter(|it| !it.is_empty()).map(str::trim).collect())
            .collect();
        let shown: Vec<_> = lines.iter().map(|line| [line[1], line[2], line[3]]).collect();
        assert_eq!(
            shown,
            [
                ["invite", "person 7", "person 3 Ann Roe"],
                ["revoke_key", "key 8", "person 3 Ann Roe"],
                ["sign_in", "person 9", "nobody"],
                ["sign_in", "-", "person 3 Ann Roe"],
                ["sign_out", "-", "person 3 Ann Roe"],
                ["sign_in", "-", "nobody"],
            ]
        );
    }
}
