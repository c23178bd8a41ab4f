//! The commands that list reads and changes of orders.

use std::net::IpAddr;

use anyhow::Result;
use clap::{Args, Subcommand};
use domain::{
    access::{Access, AccessActor, AccessId, AccessKind},
    api_key::{ApiKeyId, Party},
    order::OrderId,
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
use crate::progress::counted;

/// Accesses that one query reads. A table has as many, and programs read all.
const PAGE: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum AccessesCommand {
    /// List the reads and changes of all orders, also refused ones, with key or operator, address and
    /// outcome, the newest first
    List {
        /// Only those at this instant or later, such as 2026-12-01T08:00:00Z
        #[arg(long, value_name = "INSTANT", value_parser = instant)]
        since: Option<OffsetDateTime>,
        /// Only those by the key of this number or public part
        #[arg(long, value_name = "KEY", value_parser = key_name)]
        key: Option<KeyName>,
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
    let AccessesCommand::List { since, key, address, format } = command;
    let key = match key {
        Some(name) => Some(ApiKeyId(id_of(&*operator.storage.keys, name).await?)),
        None => None,
    };
    let address = address.map(|address| address.to_canonical());
    let filter = AccessFilter { order: None, since, key, address };
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

    async fn page(&self, filter: &AccessFilter, before: Option<AccessId>) -> Result<Vec<Access>> {
        Ok(self.storage.accesses.list(filter, before, PAGE).await?)
    }
}

/// Returns where the next page begins, if there may be one.
fn next(page: &[Access]) -> Option<AccessId> {
    page.last().filter(|_| page.len() == PAGE).map(|last| last.id)
}

/// The names of operators on a terminal. Codes, identifiers and addresses are always whole.
const SHORTENED: [(&str, usize); 1] = [("BY", 30)];

const OF_TABLE: [Column<'_, Access>; 6] = [
    ("WHEN", "", &|access| at(access.id.at)),
    ("WHAT", "", &|access| json!(access.facts.kind.as_str())),
    ("ORDER", "-", &|access| json!(target(access))),
    ("BY", "", &|access| json!(by(access))),
    ("ADDRESS", "-", &|access| json!(access.facts.address)),
    ("OUTCOME", "", &|access| json!(access.outcome)),
];

const COLUMNS: [Column<'_, Access>; 18] = [
    ("AT", "", &|access| json!(microsecond(access.id.at))),
    ("RUN", "", &|access| json!(format!("{:x}", access.id.run.0))),
    ("NUMBER", "", &|access| json!(access.id.number)),
    ("KIND", "", &|access| json!(access.facts.kind.as_str())),
    ("ORDER ID", "", &|access| json!(access.facts.order.map(|order| order.0))),
    ("ORDERS", "", &|access| json!(access.facts.orders)),
    ("POSITION", "", &|access| json!(access.facts.position)),
    ("ACTOR", "", &|access| match (party(access), &access.facts.actor) {
        (Some(Party::Client(_)), _) => json!("client"),
        (Some(Party::Service(_)), _) => json!("service"),
        (None, AccessActor::Nobody) => json!("nobody"),
        (None, _) => json!("operator"),
    }),
    ("CLIENT ID", "", &|access| match party(access) {
        Some(Party::Client(client)) => json!(client.0),
        _ => Value::Null,
    }),
    ("SIGNING SERVICE ID", "", &|access| match party(access) {
        Some(Party::Service(service)) => json!(service.0),
        _ => Value::Null,
    }),
    ("API KEY ID", "", &|access| match access.facts.actor {
        AccessActor::Key { id, .. } => json!(id.0),
        _ => Value::Null,
    }),
    ("COMMAND", "", &|access| match &access.facts.actor {
        AccessActor::Operator { command, .. } => json!(command),
        _ => Value::Null,
    }),
    ("USER", "", &|access| match &access.facts.actor {
        AccessActor::Operator { user, .. } => json!(user),
        _ => Value::Null,
    }),
    ("ADDRESS", "", &|access| json!(access.facts.address)),
    ("REQUEST ID", "", &|access| json!(access.facts.request_id)),
    ("OUTCOME", "", &|access| json!(access.outcome)),
    ("PERSON ID", "", &|access| match access.facts.actor {
        AccessActor::Person { id, .. } => json!(id.0),
        _ => Value::Null,
    }),
    ("SUBJECT ID", "", &|access| json!(access.facts.subject)),
];

fn party(access: &Access) -> Option<Party> {
    match access.facts.actor {
        AccessActor::Key { party, .. } | AccessActor::Person { party, .. } => Some(party),
        AccessActor::Operator { .. } | AccessActor::Nobody => None,
    }
}

/// Describes what was used: an order, a document as `12/0`, or how many orders.
fn target(Access { facts, .. }: &Access) -> Option<String> {
    Some(match (facts.order, facts.position, facts.orders) {
        (Some(order), Some(position), _) => format!("{}/{position}", order.0),
        (Some(order), ..) => order.0.to_string(),
        (None, _, Some(count)) if facts.kind == AccessKind::Refused => counted(&count, "request"),
        (None, _, Some(orders)) => counted(&orders, "order"),
        (None, _, None) => return None,
    })
}

fn by(access: &Access) -> String {
    match &access.facts.actor {
        AccessActor::Key { id, .. } => format!("key {}", id.0),
        AccessActor::Person { id, .. } => format!("person {}", id.0),
        AccessActor::Operator { user, .. } => format!("operator {user}"),
        AccessActor::Nobody => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use domain::{
        access::{AccessFacts, RunId},
        api_key::ClientId,
    };
    use time::macros::datetime;

    use super::*;

    fn access(actor: AccessActor) -> Access {
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
        Access { id: AccessId { at, run: RunId(255), number: 12 }, facts, outcome }
    }

    #[test]
    fn table_cuts_no_code_and_on_a_terminal_the_name_of_an_operator() {
        let user = "a.very.long.name.of.somebody@example.com".to_owned();
        let row = access(AccessActor::Operator { command: "orders show".to_owned(), user });
        let kinds = AccessKind::ALL.map(|(kind, _)| {
            let facts = AccessFacts { kind, ..row.facts.clone() };
            Access { facts, ..row.clone() }
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
        let row = access(AccessActor::Key { id: ApiKeyId(4), party: Party::Client(ClientId(2)) });
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
            })
        );
        assert_eq!(
            csv(&COLUMNS, &[row], true),
            "at,run,number,kind,order_id,orders,position,actor,client_id,signing_service_id,\
             api_key_id,command,user,address,request_id,outcome,person_id,subject_id\r\n\
             2026-11-28T16:40:00.123456Z,ff,12,download_all_signed,1234567890,,99,client,2,,4,,,\
             2001:db8:1111:2222:3333:4444:5555:6666,'=1+1,idempotency_key_reused,,\r\n"
        );
    }
}
