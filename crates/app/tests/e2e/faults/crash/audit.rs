//! Compares the stores with the responses that the clients got.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest as _, Sha256};

use crate::{
    faults::crash::clients::{Responses, TestOrder},
    wiring::{HEX_SHA256, Wiring},
};

/// The content of the stores, and how it differs from the responses.
#[derive(Debug, Default)]
pub struct Audit {
    orders: usize,
    documents: usize,
    mails: usize,
    /// Changes that were acknowledged.
    changes: usize,
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
    without_mail: Vec<usize>,
    /// Orders whose status, history and event do not tell of the same change, or not once.
    inconsistent: Vec<String>,
}

/// A row of the table `documents`.
struct Document {
    size: usize,
    sha256: String,
    key: String,
}

impl Audit {
    pub fn of(wiring: &Wiring, responses: &Responses) -> Self {
        let mut audit = Self::default();
        let orders = audit.orders(wiring, responses);
        audit.documents(wiring, &orders);
        audit.mails(wiring, &orders);
        audit.changes(wiring, responses);
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

    /// Checks that each order has all of its documents, and that each object has an order.
    fn documents(&mut self, wiring: &Wiring, orders: &BTreeMap<usize, i64>) {
        let mut rows: BTreeMap<i64, Vec<Document>> = BTreeMap::new();
        let query = format!(
            "SELECT order_id || '|' || size || '|' || {HEX_SHA256} || '|' || key \
             FROM documents ORDER BY order_id, position"
        );
        for line in wiring.lines(&query) {
            let [order, size, sha256, key] =
                line.splitn(4, '|').collect::<Vec<_>>().try_into().unwrap();
            let document = Document {
                size: size.parse().unwrap(),
                sha256: sha256.to_owned(),
                key: key.to_owned(),
            };
            rows.entry(order.parse().unwrap()).or_default().push(document);
            self.documents += 1;
        }
        let mut objects: BTreeMap<String, (usize, String)> = wiring
            .objects()
            .into_iter()
            .map(|(key, object)| (key, (object.len(), hex_sha256(&object))))
            .collect();
        for (number, id) in orders {
            let rows = rows.remove(id).unwrap_or_default();
            let sent = TestOrder(*number).documents();
            let is_complete = rows.len() == sent.len()
                && rows.iter().zip(&sent).all(|(row, sent)| {
                    let object = objects.remove(&row.key);
                    object == Some((row.size, row.sha256.clone()))
                        && object == Some((sent.len(), hex_sha256(sent)))
                });
            if !is_complete {
                self.incomplete.push(*number);
            }
        }
        self.unexpected
            .extend(rows.keys().map(|order| format!("documents of the missing order {order}")));
        self.orphans = objects.into_keys().collect();
    }

    fn mails(&mut self, wiring: &Wiring, orders: &BTreeMap<usize, i64>) {
        let mut delivered: BTreeMap<String, usize> = BTreeMap::new();
        for mail in wiring.mails() {
            let to = mail.lines().find_map(|line| line.strip_prefix("To: ")).unwrap();
            *delivered.entry(to.trim_matches(['<', '>']).to_owned()).or_default() += 1;
        }
        self.mails = delivered.values().sum();
        let mut contacts: Vec<String> = delivered.keys().cloned().collect();
        contacts.retain(|to| !orders.keys().any(|number| TestOrder(*number).contact() == *to));
        self.unexpected
            .extend(contacts.iter().map(|to| format!("mail of a missing order to {to}")));
        self.repeated_mails = self.mails - delivered.len();
        self.without_mail = orders
            .keys()
            .copied()
            .filter(|number| !delivered.contains_key(&TestOrder(*number).contact()))
            .collect();
    }

    /// Checks that each acknowledged change is stored, and that each stored one has one entry of the
    /// history and one event.
    fn changes(&mut self, wiring: &Wiring, responses: &Responses) {
        let changed = responses.changed();
        let query = "SELECT id || '|' || status || '|' || coalesce(notary_id, 0) || '|' || \
            (SELECT count(*) FROM order_changes WHERE order_id = orders.id) || '|' || \
            (SELECT count(*) FROM webhook_deliveries WHERE order_id = orders.id) || '|' || \
            file_number FROM orders";
        for line in wiring.lines(query) {
            let number = line.rsplit_once("|F-").and_then(|(_, number)| number.parse().ok());
            let Some(number) = number else { continue };
            let id = line.split('|').next().unwrap();
            let assigned = format!("{id}|ASSIGNED|{}|1|1|F-{number}", TestOrder(number).notary());
            let is_new = line == format!("{id}|NEW|0|0|0|F-{number}");
            let is_kept = line == assigned || (is_new && !changed.contains_key(&number));
            if !is_kept {
                self.inconsistent.push(line);
            }
        }
        self.changes = changed.len();
    }

    /// Returns the number of objects without an order.
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    pub fn assert_consistent(&self) {
        let Self { lost, duplicates, unexpected, incomplete, orphans, without_mail, .. } = self;
        assert!(
            lost.is_empty() && incomplete.is_empty() && without_mail.is_empty(),
            "lost {lost:?}, incomplete {incomplete:?}, without mail {without_mail:?}"
        );
        assert!(self.inconsistent.is_empty(), "changes {:?}", self.inconsistent);
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
             {} changes, {} of them inconsistent",
            self.lost.len(),
            self.duplicates.len(),
            self.incomplete.len(),
            self.orphans.len(),
            self.unexpected.len(),
            self.without_mail.len(),
            self.changes,
            self.inconsistent.len()
        )
    }
}

fn hex_sha256(content: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(content).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}
