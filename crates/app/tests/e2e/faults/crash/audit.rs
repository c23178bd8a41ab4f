//! Compares the stores with the responses that the clients got.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    faults::crash::{
        clients::{Responses, TestOrder},
        steps::{CANCELLED, CREATED, DISPATCHER, News, Step},
    },
    harness::{Api, problem},
    wiring::Wiring,
};

/// The content of the stores, and how it differs from the responses.
#[derive(Debug, Default)]
pub struct Audit {
    orders: usize,
    documents: usize,
    mails: usize,
    /// Steps that were acknowledged.
    steps: usize,
    /// Mails that were delivered more than once, which is allowed.
    repeated_mails: usize,
    /// Orders that were acknowledged and are missing.
    lost: Vec<usize>,
    /// Rows of orders with a file number that another row has.
    duplicates: Vec<String>,
    /// Rows that belong to no request.
    unexpected: Vec<String>,
    /// Orders without all of their documents.
    incomplete: Vec<usize>,
    /// Objects without an order.
    orphans: Vec<String>,
    /// News that have a mail.
    told: BTreeSet<News>,
    without_mail: Vec<News>,
    /// Orders with an acknowledged withdrawal whose bytes the sweeper has still to delete.
    readable: Vec<usize>,
    /// Orders that do not tell of each acknowledged step once: fields, history, notes and events.
    inconsistent: Vec<String>,
}

/// A row of the table `documents`.
struct Document {
    size: usize,
    sha256: String,
    /// `None` for a withdrawn document.
    key: Option<String>,
}

/// The documents of an order: those of the client, and the signed ones.
type Documents = [Vec<Document>; 2];

impl Audit {
    pub fn of(wiring: &Wiring, responses: &Responses) -> Self {
        let mut audit = Self::default();
        let orders = audit.orders(wiring, responses);
        audit.documents(wiring, responses, &orders);
        audit.mails(wiring, responses, &orders);
        audit.events(wiring, responses);
        audit.steps = responses.step_count();
        audit
    }

    /// Checks the orders. Returns the identifier of each stored order by its number.
    fn orders(&mut self, wiring: &Wiring, responses: &Responses) -> BTreeMap<usize, i64> {
        let mut stored = BTreeMap::new();
        for line in wiring.lines("SELECT id || '|' || file_number FROM orders") {
            let (id, file_number) = line.split_once('|').unwrap();
            self.orders += 1;
            let number = file_number.strip_prefix("F-").and_then(|number| number.parse().ok());
            match number.filter(|number| *number < responses.requested()) {
                None => self.unexpected.push(line),
                Some(number) => {
                    if stored.insert(number, id.parse().unwrap()).is_some() {
                        self.duplicates.push(line);
                    }
                }
            }
        }
        let acknowledged = responses.acknowledged();
        let is_lost = |number: &usize| match acknowledged.get(number) {
            Some(id) => stored.get(number) != Some(id),
            None => responses.is_created(*number) && !stored.contains_key(number),
        };
        self.lost = (0..responses.requested()).filter(is_lost).collect();
        stored
    }

    /// Checks that each order has all of its documents, that each object has an order, and that the
    /// bytes of withdrawn documents are gone.
    fn documents(&mut self, wiring: &Wiring, responses: &Responses, orders: &BTreeMap<usize, i64>) {
        let mut rows: BTreeMap<i64, Documents> = BTreeMap::new();
        let query = format!(
            "SELECT order_id || '|' || CASE WHEN signed THEN 1 ELSE 0 END || '|' || size || '|' || \
             {} || '|' || coalesce(key, '') FROM documents ORDER BY order_id, signed, position",
            wiring.hex_sha256()
        );
        for line in wiring.lines(&query) {
            let [order, signed, size, sha256, key] =
                line.splitn(5, '|').collect::<Vec<_>>().try_into().unwrap();
            let document = Document {
                size: size.parse().unwrap(),
                sha256: sha256.to_owned(),
                key: (!key.is_empty()).then(|| key.to_owned()),
            };
            let of_order = rows.entry(order.parse().unwrap()).or_default();
            of_order[usize::from(signed == "1")].push(document);
            self.documents += 1;
        }
        let mut objects: BTreeMap<String, (usize, String)> = wiring
            .objects()
            .into_iter()
            .map(|(key, object)| (key, (object.len(), hex_sha256(&object))))
            .collect();
        // An upload to an order that has the content of a document that came with it was that document.
        let mut left = BTreeSet::new();
        for line in wiring.lines("SELECT order_id || '|' || key FROM uploads WHERE order_id > 0") {
            let (order, key) = line.split_once('|').unwrap();
            if let Some((_, sha256)) = objects.get(key) {
                left.insert((order.parse::<i64>().unwrap(), sha256.clone()));
            }
        }
        for (number, id) in orders {
            let rows = rows.remove(id).unwrap_or_default();
            let steps = responses.steps(TestOrder(*number));
            let expected = TestOrder(*number).documents_after(&steps);
            let expected = expected.map(|it| {
                let of = |(sent, is_withdrawn): (Vec<u8>, bool)| {
                    (sent.len(), hex_sha256(&sent), is_withdrawn)
                };
                it.into_iter().map(of).collect::<Vec<_>>()
            });
            let mut withdrawn = expected[0].iter().filter(|(_, _, withdrawn)| *withdrawn);
            if withdrawn.any(|(_, sha256, _)| left.contains(&(*id, sha256.clone()))) {
                self.readable.push(*number);
            }
            let mut is_complete = true;
            for (rows, expected) in rows.iter().zip(&expected) {
                is_complete &= rows.len() == expected.len();
                for (row, (size, sha256, is_withdrawn)) in rows.iter().zip(expected) {
                    let object = row.key.as_ref().and_then(|key| objects.remove(key));
                    let content = (!is_withdrawn).then(|| (*size, sha256.clone()));
                    is_complete &= row.size == *size && row.sha256 == *sha256 && object == content;
                }
            }
            if !is_complete {
                self.incomplete.push(*number);
            }
        }
        self.unexpected
            .extend(rows.keys().map(|order| format!("documents of the missing order {order}")));
        self.orphans = objects.into_keys().collect();
    }

    /// Checks that each news has one mail for each address, and nothing else has one. A mail may have been delivered
    /// more than once.
    fn mails(&mut self, wiring: &Wiring, responses: &Responses, orders: &BTreeMap<usize, i64>) {
        let mut delivered: BTreeMap<News, BTreeSet<String>> = BTreeMap::new();
        let mails = wiring.mails();
        for mail in &mails {
            let header =
                |name: &str| mail.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let to = header("To: ").trim_matches(['<', '>']);
            match news(header("Subject: "), to) {
                Some(news) => {
                    delivered.entry(news).or_default().insert(header("Message-ID: ").to_owned());
                }
                None => self.unexpected.push(format!("a mail to {to}: {}", header("Subject: "))),
            }
        }
        self.mails = mails.len();
        self.repeated_mails = self.mails - delivered.values().map(BTreeSet::len).sum::<usize>();
        let composed_twice = delivered.iter().filter(|(_, ids)| ids.len() > 1);
        let composed_twice = composed_twice.map(|(news, ids)| format!("{} of {news:?}", ids.len()));
        self.unexpected.extend(composed_twice);
        let has_service = responses.service_key.get().is_some();
        let order = |number: &usize| {
            let order = TestOrder(*number);
            order.news_after(&responses.steps(order))
        };
        let expected = orders.keys().flat_map(order);
        let expected = expected.filter(|((_, _, to), _)| has_service || to != DISPATCHER);
        for (news, must) in expected {
            let (number, subject, to) = &news;
            // An address that knows an order must not keep its appointment.
            let must = must
                || subject == CANCELLED
                    && delivered.contains_key(&(*number, CREATED.to_owned(), to.clone()));
            if delivered.contains_key(&news) {
                // The news of the creation is looked up again for the cancellation.
                self.told.insert(news);
            } else if must {
                self.without_mail.push(news);
            }
        }
        let others = delivered.into_keys().filter(|news| !self.told.contains(news));
        self.unexpected.extend(others.map(|news| format!("a mail of {news:?}")));
    }

    /// Checks that each step has one event, and nothing else has one.
    fn events(&mut self, wiring: &Wiring, responses: &Responses) {
        let mut events: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for line in wiring.lines("SELECT order_id || '|' || event FROM webhook_deliveries") {
            let (order, event) = line.split_once('|').unwrap();
            events.entry(order.parse().unwrap()).or_default().push(event.to_owned());
        }
        for (number, id) in responses.acknowledged() {
            let steps = responses.steps(TestOrder(number));
            let mut expected: Vec<_> = steps.into_iter().map(Step::event).collect();
            let mut found = events.remove(&id).unwrap_or_default();
            expected.sort_unstable();
            found.sort_unstable();
            if found != expected {
                self.inconsistent.push(format!("events of order {id}, {number}: {found:?}"));
            }
        }
        let others = events.keys().map(|order| format!("events of order {order}"));
        self.inconsistent.extend(others);
    }

    /// Reads the orders, and checks what they tell of each step. The bytes of withdrawn documents must
    /// not be readable.
    pub async fn read(&mut self, service: &Api, responses: &Responses) {
        for (number, id) in responses.acknowledged() {
            let (order, path) = (TestOrder(number), format!("/api/order/{id}"));
            let steps = responses.steps(order);
            let read = service.read(&path).await;
            if !tells_of(&read, order, &steps) {
                self.inconsistent.push(format!("{number}: {read}"));
            }
            for withdrawn in TestOrder::withdrawn_by(&steps) {
                problem(service.get(&format!("{path}{withdrawn}")).await, 410, "withdrawn").await;
            }
        }
    }

    /// Returns the number of objects without an order.
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Asserts that no acknowledged withdrawal left bytes, even before the sweeper ran.
    pub fn assert_withdrawn(&self) {
        assert!(self.readable.is_empty(), "withdrawn bytes are left: {:?}", self.readable);
    }

    pub fn assert_consistent(&self) {
        self.assert_withdrawn();
        let Self { lost, duplicates, unexpected, incomplete, orphans, without_mail, .. } = self;
        assert!(
            lost.is_empty() && incomplete.is_empty() && without_mail.is_empty(),
            "lost {lost:?}, incomplete {incomplete:?}, without mail {without_mail:?}"
        );
        assert!(self.inconsistent.is_empty(), "inconsistent: {:#?}", self.inconsistent);
        assert!(
            duplicates.is_empty() && unexpected.is_empty() && orphans.is_empty(),
            "duplicates {duplicates:?}, unexpected {unexpected:?}, orphans {orphans:?}"
        );
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "in the stores: {} orders, {} documents, {} mails ({} of them repeated)",
            self.orders, self.documents, self.mails, self.repeated_mails
        )?;
        writeln!(
            formatter,
            "{} lost, {} duplicates, {} incomplete, {} orphans, {} unexpected, {} without a mail, \
             {} steps, {} inconsistent",
            self.lost.len(),
            self.duplicates.len(),
            self.incomplete.len(),
            self.orphans.len(),
            self.unexpected.len(),
            self.without_mail.len(),
            self.steps,
            self.inconsistent.len()
        )
    }
}

/// Returns whether an order tells of each of these steps once, and of nothing else.
fn tells_of(read: &Value, order: TestOrder, steps: &[Step]) -> bool {
    let list = |name: &str| read[name].as_array().unwrap();
    let texts = |list: &[Value], names: [&str; 2]| -> Vec<[String; 2]> {
        let text = |it: &Value, name| it[name].as_str().unwrap().to_owned();
        list.iter().map(|it| names.map(|name| text(it, name))).collect()
    };
    let created = [["created", "client"].map(str::to_owned)];
    let entries = steps.iter().filter_map(|step| step.entry()).map(|it| it.map(str::to_owned));
    let history: Vec<_> = created.into_iter().chain(entries).collect();
    let has = |step| steps.contains(&step);
    let (lender, notary) = (order.lender(), order.notary());
    let [documents, signed] = order.documents_after(steps);
    let withdrawn = |list: &[Value]| -> Vec<bool> {
        list.iter().map(|it| !it["withdrawn_at"].is_null()).collect()
    };
    let expected = |documents: &[(Vec<u8>, bool)]| -> Vec<bool> {
        documents.iter().map(|(_, is_withdrawn)| *is_withdrawn).collect()
    };
    texts(list("history"), ["kind", "actor"]) == history
        && texts(list("notes"), ["author", "text"]) == order.notes_after(steps)
        && read["order_status"] == TestOrder::status_after(steps)
        && read["notary_id"] == json!(has(Step::Assign).then_some(notary))
        && read["details"]["signingDetailsFormData"].get("lender").and_then(Value::as_str)
            == has(Step::Change).then_some(lender.as_str())
        && withdrawn(list("documents")) == expected(&documents)
        && withdrawn(list("signed_documents")) == expected(&signed)
        && (!has(Step::Replace) || list("documents")[0]["replaced_by"] == documents.len() - 1)
}

/// Returns the news of a mail from its subject and its address.
fn news(subject: &str, to: &str) -> Option<News> {
    let (news, order) = subject.split_once(" F-")?;
    let number = order.split(':').next()?.parse().ok()?;
    Some((number, news.to_owned(), to.to_owned()))
}

fn hex_sha256(content: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(content).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}
