//! The commands about orders. They show personal data on standard output, and none in the log.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, value_parser};
use domain::{api_key::ClientId, order::OrderId, ports::OrderFilter};

use self::erase::Which;
pub(super) use self::operator::Operator;

mod erase;
mod export;
mod operator;

#[derive(Debug, Subcommand)]
pub(super) enum OrdersCommand {
    /// List the newest orders, without those that were erased
    List {
        #[command(flatten)]
        filter: Filter,
        /// Only orders older than this one
        #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
        before: Option<i64>,
    },
    /// Print an order as JSON: its record, details and documents
    Show {
        /// Its identifier
        id: i64,
    },
    /// Write an order and its documents into an empty folder
    Export {
        /// Its identifier
        id: i64,
        /// A folder that is empty or missing
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
    },
    /// Erase the personal data of orders for good: details, file number, documents, pending mails
    /// and the mails in the mail drop. Asks before
    Erase {
        #[command(flatten)]
        which: Erased,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct Filter {
    /// Only orders with this file number
    #[arg(long, value_name = "N")]
    file_number: Option<String>,
    /// Only orders of this client, by its identifier in the list of keys
    #[arg(long, value_name = "ID", value_parser = value_parser!(i64).range(1..))]
    client: Option<i64>,
    /// Only orders with this e-mail address of a mail recipient, signer or contact
    #[arg(long, value_name = "A")]
    email: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Erased {
    /// Identifier of an order
    id: Option<i64>,
    /// Every order that was created more than this number of days ago
    #[arg(long, value_name = "DAYS", value_parser = value_parser!(u32).range(1..=36_500))]
    older_than: Option<u32>,
}

pub(super) async fn run(command: OrdersCommand, operator: &Operator) -> Result<()> {
    match command {
        OrdersCommand::List { filter, before } => {
            let filter = OrderFilter {
                file_number: filter.file_number.map(|number| number.trim().to_owned()),
                client: filter.client.map(ClientId),
                email: filter.email.map(|email| email.trim().to_owned()),
            };
            operator.list(&filter, before.map(OrderId)).await
        }
        OrdersCommand::Show { id } => operator.show(OrderId(id)).await,
        OrdersCommand::Export { id, to } => operator.export(OrderId(id), &to).await,
        OrdersCommand::Erase { which, yes } => match (which.id, which.older_than) {
            (Some(id), None) => operator.erase(Which::Order(OrderId(id)), yes).await,
            (None, Some(days)) => operator.erase(Which::OlderThan(days), yes).await,
            _ => bail!("name an order, or a number of days with --older-than"),
        },
    }
}
