//! The commands about clients.

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use domain::{
    api_key::{ApiKey, ClientId, Party},
    use_cases::keys::manage_keys::ManageKeys,
};
use serde_json::json;
use time::OffsetDateTime;

use super::output::{Column, Format, at, party_name, print};
use crate::settings::values::listed;

#[derive(Debug, Subcommand)]
pub enum ClientsCommand {
    /// List the clients, also those without a valid key
    List(Format),
    /// Give a client another name, which both sides of its orders see
    Rename(Rename),
}

#[derive(Debug, Args)]
pub struct Rename {
    /// Its identifier, as listed
    #[arg(value_parser = listed)]
    id: i64,
    /// Its name
    #[arg(long, value_parser = party_name)]
    name: String,
}

pub(super) async fn run(
    command: ClientsCommand,
    keys: &ManageKeys,
    now: OffsetDateTime,
) -> Result<()> {
    match command {
        ClientsCommand::List(format) => list(&keys.keys.list().await?, format, now),
        ClientsCommand::Rename(Rename { id, name }) => {
            let is_renamed = keys.keys.rename_client(ClientId(id), &name).await?;
            ensure!(is_renamed, "there is no client {id}; `clients list` shows all");
            print(&format!("client {id} is {name}\n"))
        }
    }
}

fn list(keys: &[ApiKey], format: Format, now: OffsetDateTime) -> Result<()> {
    let is_first = |key: &&ApiKey| key.party() == Party::Client(ClientId(key.id.0));
    let clients: Vec<_> = keys.iter().filter(is_first).collect();
    let valid = |client: &ApiKey| {
        let own = keys.iter().filter(|key| key.party() == client.party());
        own.filter(|key| key.is_valid(now)).count()
    };
    let columns: [Column<'_, &ApiKey>; 4] = [
        ("ID", "", &|client| json!(client.id.0)),
        ("SINCE", "", &|client| at(client.key.issued_at)),
        ("VALID KEYS", "", &|client| json!(valid(client))),
        ("NAME", "", &|client| json!(client.client_name())),
    ];
    format.print(&columns, &clients)
}
