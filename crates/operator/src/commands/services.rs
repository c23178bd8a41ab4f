//! The commands about signing services.

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use domain::{
    order::{EmailAddress, SigningServiceId},
    ports::ServiceRepo,
    signing_service::{MAX_EMAILS, SigningService},
};
use serde_json::json;

use super::output::{Column, Format, address, party_name, print};
use crate::settings::{
    WrongSetting,
    values::{listed, whole},
};

#[derive(Debug, Subcommand)]
pub enum ServicesCommand {
    /// Add the record of a signing service
    Add {
        /// Its number, which orders name as signingServiceId
        #[arg(value_parser = whole::<i64>(1..=i64::MAX))]
        id: i64,
        /// Its name
        #[arg(long, value_parser = party_name)]
        name: String,
        #[command(flatten)]
        addresses: Addresses,
    },
    /// List the records of signing services
    List(Format),
    /// Change the record of a signing service
    Change {
        /// Its number
        #[arg(value_parser = listed)]
        id: i64,
        #[command(flatten)]
        change: NewRecord,
    },
    /// Remove the record of a signing service. Its orders and keys stay
    Remove {
        /// Its number
        #[arg(value_parser = listed)]
        id: i64,
    },
}

#[derive(Debug, Args)]
pub struct Addresses {
    /// An address that gets a mail about each of its orders. Repeat it for several
    #[arg(
        long = "email",
        value_name = "ADDRESS",
        num_args = 1..,
        required = true,
        value_parser = address
    )]
    emails: Vec<EmailAddress>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct NewRecord {
    /// Its name
    #[arg(long, value_parser = party_name)]
    name: Option<String>,
    /// An address that gets a mail about each of its orders. Repeat it for several. They replace
    /// those before
    #[arg(long = "email", value_name = "ADDRESS", num_args = 1.., value_parser = address)]
    emails: Vec<EmailAddress>,
}

pub(super) async fn run(command: ServicesCommand, services: &dyn ServiceRepo) -> Result<()> {
    match command {
        ServicesCommand::Add { id, name, addresses } => {
            let emails = distinct(addresses.emails)?;
            let service = SigningService { id: SigningServiceId(id), name, emails };
            ensure!(services.add(&service).await?, "service {id} has a record; change it");
            print(&format!("service {id} is added\n"))
        }
        ServicesCommand::List(format) => list(&services.all().await?, format),
        ServicesCommand::Change { id, change: NewRecord { name, emails } } => {
            let emails = distinct(emails)?;
            let mut found = services.find(&[SigningServiceId(id)]).await?;
            let Some(mut service) = found.pop() else { bail!("there is no service {id}") };
            service.name = name.unwrap_or(service.name);
            if !emails.is_empty() {
                service.emails = emails;
            }
            ensure!(services.change(&service).await?, "there is no service {id}");
            list(&[service], Format::TABLE)
        }
        ServicesCommand::Remove { id } => {
            let is_removed = services.remove(SigningServiceId(id)).await?;
            ensure!(is_removed, "there is no service {id}");
            print(&format!("service {id} is removed\n"))
        }
    }
}

/// Keeps each address once, whatever the letter case.
fn distinct(emails: Vec<EmailAddress>) -> Result<Vec<EmailAddress>, WrongSetting> {
    let mut kept: Vec<EmailAddress> = Vec::new();
    for email in emails {
        if !kept.iter().any(|one| one.as_str().eq_ignore_ascii_case(email.as_str())) {
            kept.push(email);
        }
    }
    if kept.len() > MAX_EMAILS {
        return Err(anyhow!("--email: a service has at most {MAX_EMAILS} addresses").into());
    }
    Ok(kept)
}

fn list(services: &[SigningService], format: Format) -> Result<()> {
    let columns: [Column<'_, SigningService>; 3] = [
        ("ID", "", &|service| json!(service.id.0)),
        ("EMAILS", "", &|service| service.emails.iter().map(EmailAddress::as_str).collect()),
        ("NAME", "", &|service| json!(service.name)),
    ];
    format.print(&columns, services)
}
