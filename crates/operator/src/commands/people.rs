//! The commands about people.

use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use domain::{
    access::AccessKind,
    api_key::{ClientId, Party},
    order::{EmailAddress, SigningServiceId},
    person::{
        Doer, FORMER_USER, Passkey, PasskeyId, Person, PersonChange, PersonId, PersonName,
        PersonRefusal, Role, Session, SessionId, Token,
    },
    ports::{PersonError, WhichSessions, error_chain},
    use_cases::people::{
        mail_invitation::MailInvitation,
        manage_people::{InvitationTerms, ManagePeople, Manager},
    },
};
use serde_json::json;
use time::macros::format_description;

use super::{
    orders::{
        erase::confirmed,
        operator::{NoPerson, Operator},
    },
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
    /// List the passkeys of a person, or remove one that is lost: nobody signs in by it any more
    Passkeys {
        /// The number of the person, as listed
        #[arg(value_parser = listed)]
        id: i64,
        /// Remove this passkey, by its number
        #[arg(long, value_name = "PASSKEY", value_parser = listed)]
        remove: Option<i64>,
        #[command(flatten)]
        format: Format,
    },
    /// Erase a person for good: the name becomes "former user" in histories, notes, documents and
    /// accesses; address, passkeys, logins and sessions are removed
    Erase {
        /// Their number, as listed
        #[arg(value_parser = listed)]
        id: i64,
        /// Erase without asking
        #[arg(long)]
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
            Self::Passkeys { .. } => "people passkeys",
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
            let open = open_sessions(people, which).await;
            if !end && end_one.is_none() {
                return list_sessions(operator, &open?, format).await;
            }
            let person = match (which, &open) {
                (WhichSessions::OfPerson(id), _) => Some(id),
                (WhichSessions::One(_), Ok(open)) => open.iter().find_map(person_of),
                _ => None,
            };
            let ended = match open {
                Ok(_) => people.sessions.end(which, None).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            let ended = recorded(operator, AccessKind::EndSessions, person, ended).await?;
            print(&format!("sessions ended: {ended}\n"))
        }
        PeopleCommand::Passkeys { id, remove: None, format } => {
            list_passkeys(&passkeys_of(people, PersonId(id)).await?, format)
        }
        PeopleCommand::Passkeys { id, remove: Some(passkey), .. } => {
            let id = PersonId(id);
            let removed = match passkeys_of(people, id).await {
                Ok(passkeys) if passkeys.iter().all(|it| it.id.0 != passkey) => {
                    Err(NoPerson::NoPasskey { person: id.0, passkey }.into())
                }
                Ok(_) => {
                    let removed =
                        people.remove_passkey(Manager::Operator, id, PasskeyId(passkey)).await;
                    removed.map_err(|error| described(error, id))
                }
                Err(error) => Err(error),
            };
            recorded(operator, AccessKind::RemovePasskey, Some(id), removed).await?;
            print(&format!("passkey {passkey} is removed\n"))
        }
        PeopleCommand::Erase { id, yes } => erase(operator, people, PersonId(id), yes).await,
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
fn described(error: PersonError, PersonId(id): PersonId) -> anyhow::Error {
    match error {
        PersonError::Refused(PersonRefusal::Unknown) => NoPerson::Unknown(id).into(),
        PersonError::Refused(PersonRefusal::Disabled) => NoPerson::Disabled(id).into(),
        error => error.into(),
    }
}

/// Erases a person, and then what else holds their data. It can be repeated after a failure.
async fn erase(operator: &Operator, people: &ManagePeople, id: PersonId, yes: bool) -> Result<()> {
    let found = match people.people.find(id).await {
        Ok(None) => Err(NoPerson::Unknown(id.0).into()),
        found => found.map_err(Into::into),
    };
    let was_erased = match found {
        Ok(Some(person)) if person.erased_at.is_none() => {
            let name = person.person.name.as_str().to_owned();
            if !confirmed(yes, &format!("person {}, {name},", id.0))? {
                return print("nothing was erased\n");
            }
            people.erase(id).await.map(|is_erased| !is_erased).map_err(Into::into)
        }
        Ok(_) => Ok(true),
        Err(error) => Err(error),
    };
    let erased = match was_erased {
        Ok(true) => Err(NoPerson::Erased(id.0).into()),
        was_erased => was_erased.map(drop),
    };
    match recorded(operator, AccessKind::ErasePerson, Some(id), erased).await {
        Err(error) if matches!(error.downcast_ref(), Some(NoPerson::Erased(_))) => {
            eprintln!("{error}");
        }
        erased => erased?,
    }
    operator.rewrite_database().await?;
    print(&format!("person {} is now \"{FORMER_USER}\"\n", id.0))
}

/// Returns the sessions that are open. Fails if there is no such person or session.
async fn open_sessions(people: &ManagePeople, which: WhichSessions) -> Result<Vec<Session>> {
    if let WhichSessions::OfPerson(id) = which {
        expect_person(people, id).await?;
    }
    let open = people.sessions.list(which).await?;
    if let (WhichSessions::One(id), true) = (which, open.is_empty()) {
        bail!(NoPerson::NoSession(id.0));
    }
    Ok(open)
}

/// Fails if there is no such person.
async fn expect_person(people: &ManagePeople, id: PersonId) -> Result<()> {
    let person = people.people.find(id).await?;
    let is_there = person.is_some_and(|person| person.erased_at.is_none());
    ensure!(is_there, NoPerson::Unknown(id.0));
    Ok(())
}

async fn passkeys_of(people: &ManagePeople, id: PersonId) -> Result<Vec<Passkey>> {
    expect_person(people, id).await?;
    Ok(people.people.passkeys_of(&[id]).await?)
}

fn list_passkeys(passkeys: &[Passkey], format: Format) -> Result<()> {
    let columns: [Column<'_, Passkey>; 4] = [
        ("ID", "", &|passkey| json!(passkey.id.0)),
        ("CREATED", "", &|passkey| at(passkey.passkey.created_at)),
        ("LAST USED", "never", &|passkey| at(passkey.last_used_at)),
        ("NAME", "", &|passkey| json!(passkey.passkey.name.as_str())),
    ];
    format.print(&columns, passkeys)
}

fn person_of(session: &Session) -> Option<PersonId> {
    match session.session.doer {
        Doer::Person(person) => Some(person),
        Doer::Key(_) => None,
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
    type Listed = (Person, Vec<Passkey>);
    let client = |person: &Person| match person.person.party {
        Party::Client(client) => Some(client.0),
        Party::Service(_) => None,
    };
    let service = |person: &Person| match person.person.party {
        Party::Service(service) => Some(service.0),
        Party::Client(_) => None,
    };
    let email = |person: &Person| json!(person.person.email.as_ref().map(EmailAddress::as_str));
    let minute = |person: &Person| {
        let minute = format_description!("[year]-[month]-[day] [hour]:[minute]Z");
        person.last_seen_at.and_then(|seen| seen.to_utc().format(minute).ok())
    };
    let of_table: [Column<'_, Listed>; 8] = [
        ("ID", "", &|(person, _)| json!(person.id.0)),
        ("NAME", "", &|(person, _)| json!(person.person.name.as_str())),
        ("EMAIL", "-", &|(person, _)| email(person)),
        ("SIDE", "", &|(person, _)| json!(person.person.party.to_string())),
        ("ROLE", "", &|(person, _)| json!(person.person.role.as_str())),
        ("STATE", "", &|(person, _)| json!(person.state().as_str())),
        ("PASSKEYS", "", &|(_, passkeys)| json!(passkeys.len())),
        ("LAST SEEN", "never", &|(person, _)| json!(minute(person))),
    ];
    let columns: [Column<'_, Listed>; 10] = [
        ("ID", "", &|(person, _)| json!(person.id.0)),
        ("STATE", "", &|(person, _)| json!(person.state().as_str())),
        ("ROLE", "", &|(person, _)| json!(person.person.role.as_str())),
        ("CLIENT ID", "-", &|(person, _)| json!(client(person))),
        ("SIGNING SERVICE ID", "-", &|(person, _)| json!(service(person))),
        ("PASSKEYS", "", &|(_, passkeys)| json!(passkeys.len())),
        ("INVITED", "", &|(person, _)| at(person.person.invited_at)),
        ("LAST SEEN", "never", &|(person, _)| at(person.last_seen_at)),
        ("EMAIL", "-", &|(person, _)| email(person)),
        ("NAME", "", &|(person, _)| json!(person.person.name.as_str())),
    ];
    format.print_both(&of_table, &[("NAME", 16), ("EMAIL", 20)], &columns, people)
}

/// Prints sessions with the names of their people and keys.
async fn list_sessions(operator: &Operator, sessions: &[Session], format: Format) -> Result<()> {
    let doers: Vec<_> = sessions.iter().map(|session| session.session.doer).collect();
    let names = operator.storage.people.names_of(&doers).await?;
    let columns: [Column<'_, Session>; 8] = [
        ("ID", "", &|session| json!(session.id.0)),
        ("PERSON", "-", &|session| json!(person_of(session).map(|person| person.0))),
        ("API KEY", "-", &|session| match session.session.doer {
            Doer::Key(key) => json!(key.0),
            Doer::Person(_) => json!(null),
        }),
        ("SIGNED IN BY", "", &|session| json!(session.session.way.stored())),
        ("SIGNED IN", "", &|session| at(session.session.signed_in_at)),
        ("LAST USED", "", &|session| at(session.last_used_at)),
        ("ENDS", "", &|session| at(session.session.expires_at)),
        ("NAME", "-", &|session| json!(names.get(&session.session.doer))),
    ];
    format.print_both(&columns, &[("NAME", 16)], &columns, sessions)
}
