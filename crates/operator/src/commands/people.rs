//! The commands about people.

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use domain::{
    access::AccessKind,
    api_key::{ClientId, Party},
    order::{EmailAddress, SigningServiceId},
    person::{
        FORMER_USER, Passkey, Person, PersonChange, PersonId, PersonName, PersonRefusal, Role,
        Session, SessionId, Token,
    },
    ports::{PersonError, WhichSessions, error_chain},
    use_cases::people::{
        mail_invitation::MailInvitation,
        manage_people::{InvitationTerms, ManagePeople, Manager},
    },
};
use serde_json::json;

use super::{
    orders::operator::Operator,
    output::{Column, Format, address, at, print},
};
use crate::{
    adapters::notifier,
    settings::values::{listed, whole},
};

#[derive(Debug, Subcommand)]
pub enum PeopleCommand {
    /// List people: who may sign in, for which side, with how many passkeys, and when they were last
    /// seen
    List {
        #[command(flatten)]
        side: OptionalSide,
        #[command(flatten)]
        format: Format,
    },
    /// Invite a person to a side. Prints only the link to standard output, and only this once. It is
    /// valid for 7 days, and its first user becomes the person
    Invite {
        #[command(flatten)]
        side: Side,
        /// Their name, which the people of their side see
        #[arg(long, value_parser = person_name)]
        name: PersonName,
        /// Their address. Nobody signs in by it
        #[arg(long, value_name = "ADDRESS", value_parser = address)]
        email: EmailAddress,
        /// Let them manage the people and the keys of the side
        #[arg(long)]
        admin: bool,
    },
    /// Print another link for a person who has lost the first, or every way to sign in. The links
    /// before are withdrawn
    InviteAgain {
        /// Their number, as listed
        #[arg(value_parser = listed)]
        id: i64,
    },
    /// Change the name, the address or the role of a person
    Change {
        /// Their number, as listed
        #[arg(value_parser = listed)]
        id: i64,
        #[command(flatten)]
        change: NewProperties,
    },
    /// Let a person sign in no more, and end their sessions within 10 seconds. The history goes on to
    /// name them
    Disable {
        /// Their number, as listed
        #[arg(value_parser = listed)]
        id: i64,
    },
    /// Let a disabled person sign in again
    Enable {
        /// Their number, as listed
        #[arg(value_parser = listed)]
        id: i64,
    },
    /// List the sessions of a person, or all, or end them within 10 seconds
    Sessions {
        /// The number of the person, as listed. Without it: all sessions
        #[arg(value_parser = listed)]
        id: Option<i64>,
        /// End these sessions
        #[arg(long)]
        end: bool,
        /// End this session alone, by its number
        #[arg(long, value_name = "ID", value_parser = listed, conflicts_with_all = ["id", "end"])]
        end_one: Option<i64>,
        #[command(flatten)]
        format: Format,
    },
    /// Erase a person for good: the name becomes "former user" wherever it stands; address, passkeys
    /// and sessions are removed
    Erase {
        /// Their number, as listed
        #[arg(value_parser = listed)]
        id: i64,
        /// Erase without asking
        #[arg(long, required = true)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Side {
    /// The client that they belong to
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    client: Option<i64>,
    /// The signing service that they belong to
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    for_service: Option<i64>,
}

#[derive(Debug, Args)]
#[group(required = false, multiple = false)]
pub struct OptionalSide {
    /// Only those of this client
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    client: Option<i64>,
    /// Only those of this signing service
    #[arg(long, value_name = "ID", value_parser = whole::<i64>(1..=i64::MAX))]
    for_service: Option<i64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct NewProperties {
    /// Their name
    #[arg(long, value_parser = person_name)]
    name: Option<PersonName>,
    /// Their address
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    email: Option<EmailAddress>,
    /// Their role: admin or member
    #[arg(long, value_parser = role)]
    role: Option<Role>,
}

impl PeopleCommand {
    /// Returns the name of the command among the accesses.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::List { .. } => "people list",
            Self::Invite { .. } => "people invite",
            Self::InviteAgain { .. } => "people invite-again",
            Self::Change { .. } => "people change",
            Self::Disable { .. } => "people disable",
            Self::Enable { .. } => "people enable",
            Self::Sessions { .. } => "people sessions",
            Self::Erase { .. } => "people erase",
        }
    }
}

fn person_name(text: &str) -> Result<PersonName, String> {
    PersonName::new(text).map_err(|error| error.to_string())
}

fn role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "must be admin or member".to_owned())
}

fn party(client: Option<i64>, service: Option<i64>) -> Option<Party> {
    let client = client.map(|id| Party::Client(ClientId(id)));
    client.or(service.map(|id| Party::Service(SigningServiceId(id))))
}

pub(super) async fn run(
    command: PeopleCommand,
    operator: &Operator,
    people: &ManagePeople,
) -> Result<()> {
    match command {
        PeopleCommand::List { side, format } => {
            let side = party(side.client, side.for_service);
            let mut all = people.list(Manager::Operator).await?;
            all.retain(|(person, _)| side.is_none_or(|side| side == person.person.party));
            list(&all, format)
        }
        PeopleCommand::Invite { side, name, email, admin } => {
            let Some(party) = party(side.client, side.for_service) else { bail!("name a side") };
            if let Party::Client(client) = party {
                let first = operator.storage.keys.first_of(client).await?;
                ensure!(first.is_some(), "there is no {party}; `clients list` shows all");
            }
            let role = if admin { Role::Admin } else { Role::Member };
            let terms = InvitationTerms { party, name, email: Some(email), role };
            let invited = people.invite(Manager::Operator, terms).await.map_err(Into::into);
            let id = invited.as_ref().ok().map(|(id, _)| *id);
            let (id, token) = recorded(operator, AccessKind::Invite, id, invited).await?;
            hand_over(operator, people, id, &token).await
        }
        PeopleCommand::InviteAgain { id } => {
            let id = PersonId(id);
            let invited = people.invite_again(Manager::Operator, id).await;
            let invited = invited.map_err(|error| described(error, id));
            let (_, token) = recorded(operator, AccessKind::Invite, Some(id), invited).await?;
            hand_over(operator, people, id, &token).await
        }
        PeopleCommand::Change { id, change: NewProperties { name, email, role } } => {
            let change = PersonChange { name, email, role, is_disabled: None };
            let person = changed(operator, people, id, &change).await?;
            list(&[(person, people.people.passkeys_of(&[PersonId(id)]).await?)], Format::TABLE)
        }
        PeopleCommand::Disable { id } => {
            let change = PersonChange { is_disabled: Some(true), ..PersonChange::default() };
            changed(operator, people, id, &change).await?;
            print(&format!("person {id} is disabled\n"))
        }
        PeopleCommand::Enable { id } => {
            let change = PersonChange { is_disabled: Some(false), ..PersonChange::default() };
            changed(operator, people, id, &change).await?;
            print(&format!("person {id} is enabled\n"))
        }
        PeopleCommand::Sessions { id, end, end_one, format } => {
            let which = match (end_one, id) {
                (Some(session), _) => WhichSessions::One(SessionId(session)),
                (None, Some(id)) => WhichSessions::OfPerson(PersonId(id)),
                (None, None) => WhichSessions::All,
            };
            if !end && end_one.is_none() {
                let now = operator.clock.now();
                return list_sessions(&people.sessions.sessions.list(which, now).await?, format);
            }
            let ended = people.sessions.end(which, None).await.map_err(Into::into);
            let person = id.map(PersonId);
            let ended = recorded(operator, AccessKind::EndSessions, person, ended).await?;
            print(&format!("sessions ended: {ended}\n"))
        }
        PeopleCommand::Erase { id, .. } => {
            let erased = people.erase(PersonId(id)).await.map_err(Into::into);
            let erased = erased.and_then(|is_erased| {
                ensure!(is_erased, "there is no person {id}");
                Ok(())
            });
            recorded(operator, AccessKind::ErasePerson, Some(PersonId(id)), erased).await?;
            print(&format!("person {id} is now \"{FORMER_USER}\"\n"))
        }
    }
}

async fn changed(
    operator: &Operator,
    people: &ManagePeople,
    id: i64,
    change: &PersonChange,
) -> Result<Person> {
    let id = PersonId(id);
    let person = people.change(Manager::Operator, id, change).await;
    let person = person.map_err(|error| described(error, id));
    recorded(operator, AccessKind::ChangePerson, Some(id), person).await
}

/// Returns the error of a command about a person.
fn described(error: PersonError, id: PersonId) -> anyhow::Error {
    match error {
        PersonError::Refused(PersonRefusal::Unknown) => anyhow!("there is no person {}", id.0),
        PersonError::Refused(PersonRefusal::Disabled) => {
            anyhow!("person {0} is disabled; `people enable {0}` first", id.0)
        }
        error => error.into(),
    }
}

/// Stores the access of a change, before the operator sees its result.
async fn recorded<T>(
    operator: &Operator,
    kind: AccessKind,
    subject: Option<PersonId>,
    result: Result<T>,
) -> Result<T> {
    let access = operator.recording.begin_of(kind, subject.map(|person| person.0));
    operator.recorded(access, result).await
}

/// Prints only the link to standard output. Mails it, too, if there is a relay, and users know the address of the
/// service.
async fn hand_over(
    operator: &Operator,
    people: &ManagePeople,
    id: PersonId,
    token: &Token,
) -> Result<()> {
    let Operator { settings, storage, clock, .. } = operator;
    // The service may listen at several addresses, or at one that this command does not know.
    let port = settings.listen.rsplit(':').next().and_then(|port| port.parse().ok());
    let link = settings.console_link("invite", token, port.unwrap_or(8080));
    print(&format!("{link}\n"))?;
    eprintln!("the link is for person {}, and valid for 7 days", id.0);
    let Some(person) = people.people.find(id).await? else { return Ok(()) };
    let (Some(_), Some(_), None) =
        (&person.person.email, &settings.public_url, settings.mail_drop())
    else {
        return Ok(());
    };
    let mails = MailInvitation {
        keys: storage.keys.clone(),
        services: storage.services.clone(),
        notifier: notifier(settings)?,
    };
    match mails.mail(&person, None, link, clock.now()).await {
        Ok(_) => eprintln!("it was mailed, too"),
        Err(error) => eprintln!("it was not mailed: {}", error_chain(&error)),
    }
    Ok(())
}

fn list(people: &[(Person, Vec<Passkey>)], format: Format) -> Result<()> {
    let side = |person: &Person| person.person.party;
    let columns: [Column<'_, (Person, Vec<Passkey>)>; 9] = [
        ("ID", "", &|(person, _)| json!(person.id.0)),
        ("STATE", "", &|(person, _)| json!(person.state().as_str())),
        ("ROLE", "", &|(person, _)| json!(person.person.role.as_str())),
        ("CLIENT ID", "-", &|(person, _)| match side(person) {
            Party::Client(client) => json!(client.0),
            Party::Service(_) => json!(null),
        }),
        ("SIGNING SERVICE ID", "-", &|(person, _)| match side(person) {
            Party::Service(service) => json!(service.0),
            Party::Client(_) => json!(null),
        }),
        ("PASSKEYS", "", &|(_, passkeys)| json!(passkeys.len())),
        ("LAST SEEN", "never", &|(person, _)| person.last_seen_at.map_or(json!(null), at)),
        ("EMAIL", "-", &|(person, _)| {
            json!(person.person.email.as_ref().map(EmailAddress::as_str))
        }),
        ("NAME", "", &|(person, _)| json!(person.person.name.as_str())),
    ];
    format.print(&columns, people)
}

fn list_sessions(sessions: &[Session], format: Format) -> Result<()> {
    use domain::person::Doer;
    let columns: [Column<'_, Session>; 7] = [
        ("ID", "", &|session| json!(session.id.0)),
        ("PERSON", "-", &|session| match session.session.doer {
            Doer::Person(person) => json!(person.0),
            Doer::Key(_) => json!(null),
        }),
        ("API KEY", "-", &|session| match session.session.doer {
            Doer::Key(key) => json!(key.0),
            Doer::Person(_) => json!(null),
        }),
        ("SIGNED IN BY", "", &|session| json!(session.session.way.stored())),
        ("SIGNED IN", "", &|session| at(session.session.signed_in_at)),
        ("LAST USED", "", &|session| at(session.last_used_at)),
        ("ENDS", "", &|session| at(session.session.expires_at)),
    ];
    format.print(&columns, sessions)
}
