//! The commands of `docs/quick-start.md`, from the database to the backup. `sudo` changes
//! no user, and the test starts the service instead of systemd.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use test_servers::{
    certificates::Certificates,
    janitor::free_port,
    postgres::{self, Cluster},
};

use crate::{
    harness::service_process::{ServiceProcess, text},
    wiring::Wiring,
};

/// Runs a command as this user. The environment names the superuser of PostgreSQL.
const SUDO: &str = "#!/bin/sh\n[ \"$1\" != -u ] || shift 2\nexec \"$@\"\n";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the first block of code of a step.
fn block<'a>(guide: &'a str, step: &str) -> &'a str {
    let (_, rest) = guide.split_once(&format!("\n**{step}")).unwrap();
    rest.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0
}

/// The machine of an operator.
struct Machine {
    folder: tempfile::TempDir,
    environment: BTreeMap<String, String>,
}

impl Machine {
    fn new(wiring: &Wiring) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let admin = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_notary-orders"));
        for (name, script) in [("sudo", SUDO), ("notary-orders-admin", &admin)] {
            fs::write(programs.join(name), script).unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let servers = postgres::program("psql");
        let path = [&programs, servers.parent().unwrap()].map(|it| it.to_str().unwrap().to_owned());
        let environment = BTreeMap::from([
            ("PATH".to_owned(), format!("{}:{}", path.join(":"), env::var("PATH").unwrap())),
            ("PGHOST".to_owned(), "127.0.0.1".to_owned()),
            ("PGPORT".to_owned(), wiring.servers().database_server().port().to_string()),
            ("PGUSER".to_owned(), postgres::SUPERUSER.to_owned()),
            ("PGPASSWORD".to_owned(), postgres::PASSWORD.to_owned()),
            ("PGDATABASE".to_owned(), "postgres".to_owned()),
        ]);
        Self { folder, environment }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.environment).current_dir(self.folder.path());
        command
    }

    /// Runs commands of the guide. Returns their output.
    fn run(&self, commands: &str) -> String {
        text(self.command("sh").args(["-e", "-c", commands]).output().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_quick_start_make_a_service_for_two_sides() {
    let guide = fs::read_to_string(root().join("docs/quick-start.md")).unwrap();
    // The doctor rejects a server that is faster than it is safe, as those of other tests are.
    let wiring = Wiring::with_database_server(Cluster::start(&["fsync = on"]));
    let mut machine = Machine::new(&wiring);
    machine.run(block(&guide, "2. PostgreSQL"));

    // The settings of the guide, with the servers and files of this test.
    let certificates = Certificates::issue("Root", &["localhost"]);
    let (cert, key) = (machine.file("fullchain.pem"), machine.file("privkey.pem"));
    fs::write(&cert, certificates.cert_pem()).unwrap();
    fs::write(&key, certificates.key_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = machine.run("openssl rand -base64 32").trim().to_owned();
    let port = wiring.servers().database_server().port();
    for line in block(&guide, "3. Settings").lines() {
        let (name, value) = line.split_once('=').unwrap();
        let value = match name {
            "DATABASE_URL" => value.replace("@localhost/", &format!("@127.0.0.1:{port}/")),
            "NOTARY_ORDERS_MAIL_URL" => wiring.servers().relay().url(),
            "NOTARY_ORDERS_SECRETS_KEY" => value.replace("KEY", &secret),
            "NOTARY_ORDERS_LISTEN" => value.replace("0.0.0.0:8443", "127.0.0.1:0"),
            "NOTARY_ORDERS_TLS_CERT" => cert.clone(),
            "NOTARY_ORDERS_TLS_KEY" => key.clone(),
            _ => value.to_owned(),
        };
        assert!(machine.environment.insert(name.to_owned(), value).is_none(), "{name} twice");
    }
    let data = machine.file("data");
    machine.environment.insert("NOTARY_ORDERS_DATA_DIR".to_owned(), data.clone());
    let free = format!("127.0.0.1:{}", free_port());
    machine.environment.insert("NOTARY_ORDERS_OPS_LISTEN".to_owned(), free.clone());

    let checks = block(&guide, "4. Check");
    let (doctor, ready) = checks.split_once("sudo systemctl restart notary-orders\n").unwrap();
    let found = machine.run(doctor);
    assert!(found.contains("ok    certificate") && !found.contains("is unknown"), "{found}");
    let mut command = machine.command(env!("CARGO_BIN_EXE_notary-orders"));
    command.args(["serve", "--log-format=json", "--drain-secs=0"]);
    // The guide asks right after the start, as here before it.
    let ready = ready.replace("127.0.0.1:8081", &free);
    let mut asking = machine.command("sh");
    asking.args(["-e", "-c", &ready]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let asking = asking.spawn().unwrap();
    let service = ServiceProcess::spawn(command);
    let answer = text(asking.wait_with_output().unwrap());
    assert!(answer.contains("\"ready\""), "{answer}");

    // Both sides work with their keys.
    let keys = machine.run(block(&guide, "5. First keys"));
    let [client, test] = keys.lines().collect::<Vec<_>>()[..] else { panic!("{keys}") };
    assert!(client.starts_with("nok_") && test.starts_with("nok_test_"), "{keys}");
    let signing_service = machine.run(block(&guide, "6. A signing service"));
    let signing_service = signing_service.lines().last().unwrap();
    let webhooks = machine.run(block(&guide, "7. Webhooks"));
    assert!(webhooks.starts_with("whsec_") && webhooks.contains("\nnok_"), "{webhooks}");
    let api = format!("https://localhost:{}", service.address.port());
    let trust = machine.file("root.pem");
    fs::write(&trust, &certificates.root).unwrap();
    let curl = |arguments: &str| machine.run(&format!("CURL_CA_BUNDLE='{trust}' {arguments}"));
    let create = root().join("scripts/release/create-order.sh");
    let created = curl(&format!("'{}' {api} {client}", create.display()));
    assert!(created.contains("\"order_id\":1,"), "{created}");
    wiring.servers().wait_for_mails(2).await;
    let mails = wiring.servers().relay().mails();
    let dispatch = "dispatch@signings.example.com";
    assert!(mails.iter().any(|mail| mail.to == [dispatch]), "{mails:?}");
    let order =
        curl(&format!("curl -sf {api}/api/order/1 -H 'Authorization: Bearer {signing_service}'"));
    assert!(order.contains("\"file_number\":\"TRY-1\""), "{order}");

    let links = machine.run(block(&guide, "8. People"));
    assert_eq!(links.lines().count(), 2, "{links}");
    let is_link = |line: &str| line.starts_with("https://orders.example.com:8443/console#invite=");
    assert!(links.lines().all(is_link), "{links}");
    wiring.servers().wait_for_mails(4).await;

    let backup = block(&guide, "9. Back up").replace("/var/lib/notary-orders", &data);
    machine.run(&backup);
    assert_eq!(machine.run("stat --format=%a orders.dump"), "600\n");
    let dumped = machine.run("pg_restore --list orders.dump && ls -d documents");
    assert!(
        dumped.contains("TABLE DATA public orders ") && dumped.contains("\ndocuments\n"),
        "{dumped}"
    );
    let left_out = ["TABLE DATA public uploads ", "TABLE DATA public sessions "];
    assert!(left_out.iter().all(|table| !dumped.contains(table)), "{dumped}");
}
