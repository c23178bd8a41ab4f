//! Runs the commands of the guide `docs/clients.md`, which generate clients from the OpenAPI document
//! and call a real service with them. Checks the document with validators and linters.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use domain::{api_key::Scope, order::SigningServiceId, use_cases::keys::manage_keys::KeyTerms};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_servers::tools::built;

use crate::harness::{TestApp, WEBHOOKS};

/// Classes that the generated client for Java needs, and that no package of Debian has.
const JSON_NULLABLE: [(&str, &str); 2] = [
    ("JsonNullable.java", include_str!("generated_clients/JsonNullable.java")),
    ("JsonNullableModule.java", include_str!("generated_clients/JsonNullableModule.java")),
];

/// Packages of Debian that the generated client for Java needs.
const JARS: [&str; 4] = ["geronimo-annotation-1.3-spec", "httpclient", "httpcore", "httpmime"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder like that of a user: with the documents, and with the tools of `scripts/test.sh`.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(root().join("docs"), folder.path().join("docs")).unwrap();
        let modules = built("tools/node_modules", "scripts/client_tools.sh makes it");
        symlink(modules, folder.path().join("node_modules")).unwrap();
        Self(folder)
    }

    /// Runs shell commands that succeed. Returns what they print.
    fn run(&self, commands: &str, settings: &[(&str, String)]) -> String {
        let venv = built("tools/venv/bin", "scripts/test.sh makes it");
        let path = [venv.to_str().unwrap(), &std::env::var("PATH").unwrap()];
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", &format!("{{ {commands}\n}} 2>&1")])
            .current_dir(self.0.path())
            .env("PATH", path.join(":"))
            .env("NO_PROXY", "127.0.0.1")
            // So npx runs installed programs only.
            .env("npm_config_offline", "true")
            .env("npm_config_loglevel", "error")
            .env("REDOCLY_TELEMETRY", "off")
            .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
            .envs(settings.iter().map(|(name, value)| (name, value)));
        let output = shell.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{commands}\n{}\n{printed}", output.status);
        printed
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }
}

/// Returns the blocks of commands below a heading of the guide.
fn blocks(heading: &str) -> Vec<String> {
    let guide = fs::read_to_string(root().join("docs/clients.md")).unwrap();
    let mut sections = guide.split("\n#").map(|it| it.trim_start_matches('#'));
    let section = sections.find(|it| it.starts_with(&format!(" {heading}\n")));
    let section = section.unwrap_or_else(|| panic!("{heading}"));
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(str::to_owned).collect()
}

fn is_installation(block: &str) -> bool {
    block.starts_with("pip install") || block.starts_with("npm install")
}

/// Returns the commands below a heading, without those that install what `scripts/test.sh` installs.
fn commands(heading: &str) -> String {
    let commands: Vec<_> =
        blocks(heading).into_iter().filter(|block| !is_installation(block)).collect();
    assert!(!commands.is_empty(), "{heading}");
    commands.concat()
}

/// Runs the commands below a heading against a service. Returns the service and what they print.
async fn run_section(heading: &'static str) -> (TestApp, String) {
    let app = TestApp::start_with(&WEBHOOKS).await;
    let scopes = [Scope::OrdersCreate, Scope::OrdersRead, Scope::WebhooksManage];
    let ours = KeyTerms { scopes: scopes.into_iter().collect(), ..KeyTerms::default() };
    let theirs = KeyTerms {
        for_service: Some(SigningServiceId(42)),
        scopes: Scope::DEFAULT_OF_SERVICES.into_iter().collect(),
        ..KeyTerms::default()
    };
    let settings = [
        ("BASE_URL", app.url("")),
        ("API_KEY", app.issue_key_on(ours).await),
        ("SERVICE_API_KEY", app.issue_key_on(theirs).await),
        ("WEBHOOK_URL", "http://127.0.0.1:9443/orders".to_owned()),
    ];
    let run = move || Folder::new().run(&commands(heading), &settings);
    (app, tokio::task::spawn_blocking(run).await.unwrap())
}

/// Returns the size of an example document.
fn size(name: &str) -> u64 {
    fs::metadata(root().join("docs/examples").join(name)).unwrap().len()
}

fn download(name: &str) -> String {
    format!("downloaded {name} {}", size(name))
}

/// Asserts that a program has used every operation of the guide.
fn assert_whole_run(app: &TestApp, printed: &str, webhook: &str) {
    let expected = [
        "created 1 2026-12-01 2",
        "listed [1]",
        "read NEW 14:30",
        &download("deed-of-trust.pdf"),
        &download("signing-instructions.docx"),
        "changed ASSIGNED 7001",
        webhook,
        "webhooks 0",
    ];
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.ends_with(&expected), "{printed}");
    assert_eq!((app.rows("orders"), app.rows("documents")), (1, 2));
    assert_no_collisions(printed);
}

/// Asserts that openapi-generator has no name or file twice.
fn assert_no_collisions(printed: &str) {
    assert!(printed.contains("writing file"), "{printed}");
    for warning in ["COLLISION", "collision", "Duplicate", "duplicate", "ERROR"] {
        let lines: Vec<_> = printed.lines().filter(|line| line.contains(warning)).collect();
        assert_eq!(lines, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: runs a generator of clients"]
async fn python_client_of_openapi_generator_uses_all_operations() {
    let (app, printed) = run_section("Python").await;
    assert_whole_run(&app, &printed, "webhook disabled ['order.created'] None 1");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: runs a generator of clients"]
async fn typescript_client_of_openapi_generator_uses_all_operations() {
    let (app, printed) = run_section("TypeScript").await;
    assert_whole_run(&app, &printed, "webhook disabled [ 'order.created' ] null 1");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: runs a generator of clients"]
async fn client_of_openapi_python_client_uses_all_operations() {
    let (app, printed) = run_section("openapi-python-client").await;
    assert!(!printed.contains("WARNING"), "{printed}");
    // The line that generators print.
    let printed = printed.replace("Generating clients/attrs", "writing file");
    assert_whole_run(&app, &printed, "webhook disabled ['order.created'] None 1");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: runs a generator of clients"]
async fn types_of_openapi_typescript_and_schemas_of_hey_api_compile_and_work() {
    let (app, printed) = run_section("openapi-typescript and @hey-api/openapi-ts").await;
    let (deed, instructions) =
        (download("deed-of-trust.pdf"), download("signing-instructions.docx"));
    let expected = [
        "created 1 2026-12-01",
        "read NEW en",
        "changed NEW",
        &deed,
        "created 2 2026-12-01 2",
        "read NEW Zo\u{eb} \u{5f35} \u{1f44b}",
        &deed,
        &instructions,
    ];
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines.ends_with(&expected), "{printed}");
    assert_eq!((app.rows("orders"), app.rows("documents")), (2, 3));
}

#[test]
#[ignore = "nightly: runs a generator of clients"]
fn java_client_compiles() {
    let folder = Folder::new();
    assert_no_collisions(&folder.run(&commands("Java"), &[]));
    for (name, text) in JSON_NULLABLE {
        folder.write(name, text);
    }
    let jackson =
        folder.run("python -c 'import openapi_generator_cli as it; print(it.__path__[0])'", &[]);
    let jackson = format!("{}/openapi-generator.jar", jackson.trim());
    let jars = JARS.map(|name| format!("/usr/share/java/{name}.jar"));
    for jar in jars.iter().chain([&jackson]) {
        assert!(Path::new(jar).exists(), "{jar} is missing: scripts/test.sh installs it");
    }
    let class_path = format!("{jackson}:{}", jars.join(":"));
    let compile = format!(
        "javac -nowarn -d classes -cp {class_path} *.java $(find clients/java/src/main -name '*.java')"
    );
    folder.run(&compile, &[]);
    assert!(folder.0.path().join("classes/org/openapitools/client/api/WebhooksApi.class").exists());
}

#[test]
#[ignore = "nightly: runs a generator of clients"]
fn csharp_client_is_generated_without_collisions() {
    let folder = Folder::new();
    assert_no_collisions(&folder.run(&commands("C#"), &[]));
    let api = folder.0.path().join("clients/csharp/src/Org.OpenAPITools/Api/WebhooksApi.cs");
    assert!(fs::read_to_string(api).unwrap().contains("RotateWebhookSecretAsync("));
}

/// Asserts that the guide installs what the generated client for Python requires.
fn assert_installs_requirements(folder: &Folder) {
    let requirements = folder.run("cat clients/python/requirements.txt", &[]);
    let guide = blocks("Python").concat();
    let mut checked = 0;
    for line in requirements.lines() {
        let name = line.split([' ', '>', '=', '<']).next().unwrap().replace('_', "-");
        // pydantic installs it.
        if !name.is_empty() && name != "typing-extensions" {
            assert!(guide.contains(&format!(" {name}==")), "{line}");
            checked += 1;
        }
    }
    assert_eq!(checked, 3, "{requirements}");
}

/// Answers with values that later versions may have.
fn later_answers() -> Value {
    let at = "2026-11-21T12:00:00.000000Z";
    let events: Vec<_> = (1..=9).map(|number| format!("order.later_{number}")).collect();
    let webhook = json!({
        "id": 3, "url": "https://hooks.title.example.com/", "events": events,
        "description": "x".repeat(300), "status": "paused", "disabled_by": "quota",
        "disabled_at": at, "failing_since": null, "created_at": at, "later": {}
    });
    json!({
        "webhooks": {
            "object": "list", "url": "/api/webhooks", "has_more": false,
            "data": vec![&webhook; 11]
        },
        "webhook": webhook,
        "secret": { "id": 3, "secret": "whsec_2_later" },
        "document": {
            "position": 150, "name": "x".repeat(200), "name_as_sent": "deed.pdf",
            "media_type": "application/later", "size": 1, "sha256": "LATER", "created_at": at,
            "uploaded_by": "lender", "replaces": null, "replaced_by": null,
            "withdrawn_at": at, "withdrawn_by": "lender", "first_downloaded_at": null,
            "url": "/api/order/1/documents/150"
        },
        "details": {
            "fileNumber": "REFI-1", "signingDate": "2026-12-01", "signingTimeType": "later",
            "timeZoneId": "America/Chicago", "propertyAddress": "123 Main St",
            "signingType": "Refinance", "signerName": "Jane Doe", "signerPhone": "later",
            "signerEmail": "later", "city": "Toronto", "state": "Ontario",
            "zipcode": "M5V 3L9 later", "language": "en", "isPropertyAddressSame": true,
            "scanbacksRequired": false, "ronSigning": false
        },
        "problem": {
            "type": "about:blank", "title": "Later", "status": 600, "detail": "x".repeat(3000),
            "code": "later_2", "request_id": "later/~2", "trace_id": "later",
            "errors": [{ "code": "later_2", "detail": "is later", "pointer": "/x".repeat(200) }]
        },
        "delivery": {
            "id": 12, "message_id": "msg_1", "event": "order.later_1", "order_id": null,
            "status": "postponed", "attempts": [], "next_attempt_at": null, "created_at": at
        },
        "history": {
            "at": at, "kind": "later", "order_status": "LATER", "notary_id": null, "actor": "notary", "reason": null
        }
    })
}

#[test]
#[ignore = "nightly: runs a generator of clients"]
fn clients_read_values_that_they_do_not_know() {
    let folder = Folder::new();
    folder.write("later.json", &later_answers().to_string());
    folder.write(
        "later.py",
        "import json, sys\n\
         sys.path[:0] = ['clients/python', 'clients/attrs']\n\
         import notary_orders_client.models as attrs, openapi_client as pydantic\n\
         later = json.load(open('later.json'))\n\
         for models in (attrs, pydantic):\n\
         \x20   webhooks = models.WebhookList.from_dict(later['webhooks'])\n\
         \x20   secret = models.WebhookSecret.from_dict(later['secret'])\n\
         \x20   document = models.DocumentRecord.from_dict(later['document'])\n\
         \x20   details = models.SigningDetails.from_dict(later['details'])\n\
         \x20   problem = models.Problem.from_dict(later['problem'])\n\
         \x20   print(len(webhooks.data), secret.secret, document.position, document.sha256,\n\
         \x20       details.zipcode, problem.code, problem.request_id, problem.errors[0].code)\n\
         \x20   webhook = models.Webhook.from_dict(later['webhook'])\n\
         \x20   delivery = models.WebhookDelivery.from_dict(later['delivery'])\n\
         \x20   entry = models.OrderHistoryEntry.from_dict(later['history'])\n\
         \x20   print(webhook.status, webhook.disabled_by, len(webhook.events), delivery.event,\n\
         \x20       delivery.status, entry.kind, entry.order_status, entry.actor)\n",
    );
    folder.write(
        "clients_later.ts",
        "import { readFileSync } from 'node:fs';\n\
         import * as z from './clients/hey-api/zod.gen';\n\
         const later = JSON.parse(readFileSync('later.json', 'utf8'));\n\
         const webhooks = z.zWebhookList.parse(later.webhooks);\n\
         const secret = z.zWebhookSecret.parse(later.secret);\n\
         const document = z.zDocumentRecord.parse(later.document);\n\
         const details = z.zSigningDetails.parse(later.details);\n\
         const problem = z.zProblem.parse(later.problem);\n\
         console.log(webhooks.data.length, secret.secret, document.position, document.sha256,\n\
         \x20   details.zipcode, problem.code, problem.request_id, problem.errors?.[0].code);\n\
         const webhook = z.zWebhook.parse(later.webhook);\n\
         const delivery = z.zWebhookDelivery.parse(later.delivery);\n\
         const entry = z.zOrderHistoryEntry.parse(later.history);\n\
         console.log(webhook.status, webhook.disabled_by, webhook.events.length, delivery.event,\n\
         \x20   delivery.status, entry.kind, entry.order_status, entry.actor);\n",
    );
    let generate =
        ["Python", "openapi-python-client", "openapi-typescript and @hey-api/openapi-ts"].map(
            |heading| {
                let commands = commands(heading).replace("\\\n", "");
                let lines = commands
                    .lines()
                    .filter(|line| line.trim_start_matches("npx ").starts_with("openapi"));
                lines.fold(String::new(), |lines, line| lines + line + "\n")
            },
        );
    folder.run(&generate.concat(), &[]);
    assert_installs_requirements(&folder);
    let compile = "npx tsc --strict --target es2022 --module commonjs --moduleResolution node10 \
        --esModuleInterop --types node --outDir later clients_later.ts";
    let printed =
        folder.run(&format!("python later.py\n{compile}\nnode later/clients_later.js"), &[]);
    let expected = "11 whsec_2_later 150 LATER M5V 3L9 later later_2 later/~2 later_2\n\
        paused quota 9 order.later_1 postponed later LATER notary\n";
    assert_eq!(printed, expected.repeat(3));
}

#[test]
fn guide_names_the_versions_of_the_tests() {
    let read = |name: &str| fs::read_to_string(root().join("scripts").join(name)).unwrap();
    let (requirements, packages) = (read("requirements.txt"), read("package.json"));
    let packages: Value = serde_json::from_str(&packages).unwrap();
    let headings = [
        "Python",
        "TypeScript",
        "openapi-python-client",
        "openapi-typescript and @hey-api/openapi-ts",
    ];
    let mut checked = 0;
    for block in headings.into_iter().chain(["Postman"]).flat_map(blocks) {
        for line in block.lines().filter(|_| is_installation(&block)) {
            for package in line.split(' ').skip(2).map(|word| word.trim_matches('\'')) {
                if let Some((name, version)) = package.split_once("==") {
                    let name = name.split('[').next().unwrap();
                    let pin = format!("\n{name}=={version}\n");
                    assert!(requirements.contains(&pin), "{package}");
                } else {
                    let (name, version) = package.rsplit_once('@').unwrap();
                    assert_eq!(packages["dependencies"][name], version, "{package}");
                }
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 15);
}

/// The generator for TypeScript is told the APIs. Those of people are for pages.
#[test]
fn typescript_client_has_every_api() {
    let document = fs::read_to_string(root().join("docs/openapi.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let tags = document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap());
    let apis = tags.filter(|tag| !["events", "sessions", "people"].contains(tag)).map(|tag| {
        let (first, rest) = tag.split_at(1);
        first.to_uppercase() + rest
    });
    let expected = format!("apis={},", apis.collect::<Vec<_>>().join(":"));
    let commands = commands("TypeScript");
    assert!(commands.contains(&expected), "{expected}: {commands}");
}

#[test]
fn validators_and_linters_have_nothing_to_say() {
    let folder = Folder::new();
    folder.write("spectral.yaml", "extends: spectral:oas");
    let printed = folder.run("openapi-spec-validator docs/openapi.json", &[]);
    assert_eq!(printed.trim(), "docs/openapi.json: OK");
    folder.run(
        "npx spectral lint --ruleset spectral.yaml --fail-severity hint docs/openapi.json",
        &[],
    );
    folder.run("npx redocly lint --format json docs/openapi.json >redocly.json 2>redocly.log", &[]);
    let report = fs::read(folder.0.path().join("redocly.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["totals"], json!({ "errors": 0, "warnings": 0, "ignored": 0 }), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postman_collection_is_made_from_the_document_and_creates_orders() {
    let made = Folder::new().run(
        &format!("python {}/scripts/postman_collection.py docs/openapi.json", root().display()),
        &[],
    );
    let stored =
        fs::read_to_string(root().join("docs/notary-orders.postman_collection.json")).unwrap();
    assert!(made == stored, "`just openapi` makes the collection");

    let (app, printed) = run_section("Postman").await;
    assert_eq!(printed.matches("[201 Created").count(), 2, "{printed}");
    assert_eq!((app.rows("orders"), app.rows("documents")), (2, 1));
}
