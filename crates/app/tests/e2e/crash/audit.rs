//! What is in the stores, beside what the clients were told.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest as _, Sha256};

use crate::{
    crash::clients::{Answers, Wanted},
    wiring::{HEX_SHA256, Wiring},
};

/// Every count but the first two is of something that must not be.
#[derive(Debug, Default)]
pub struct Audit {
    orders: usize,
    documents: usize,
    lost: Vec<usize>,
    twice: Vec<String>,
    strange: Vec<String>,
    half: Vec<usize>,
    orphans: Vec<String>,
    without_mail: Vec<usize>,
    mails: usize,
    mails_again: usize,
}

/// A row of the table of documents.
struct Document {
    size: usize,
    sha256: String,
    key: String,
}

impl Audit {
    pub fn of(wiring: &Wiring, answers: &Answers) -> Self {
        let mut audit = Self::default();
        let orders = audit.orders(wiring, answers);
        audit.documents(wiring, &orders);
        audit.mails(wiring, &orders);
        audit
    }

    /// The identifier of every order that is kept, by its number.
    fn orders(&mut self, wiring: &Wiring, answers: &Answers) -> BTreeMap<usize, i64> {
        let mut kept = BTreeMap::new();
        for line in wiring.lines("SELECT id || '|' || file_number AS line FROM orders") {
            let (id, file_number) = line.split_once('|').unwrap();
            self.orders += 1;
            let number = file_number.strip_prefix("F-").and_then(|number| number.parse().ok());
            match number.filter(|number| *number < answers.asked()) {
                None => self.strange.push(line),
                Some(number) => {
                    if kept.insert(number, id.parse().unwrap()).is_some() {
                        self.twice.push(line);
                    }
                }
            }
        }
        let acknowledged = answers.acknowledged();
        let lost = |number: &usize| {
            acknowledged
                .get(number)
                .map_or(answers.kept(*number) && !kept.contains_key(number), |id| {
                    kept.get(number) != Some(id)
                })
        };
        self.lost = (0..answers.asked()).filter(lost).collect();
        kept
    }

    /// Each order has all of its documents, byte for byte, and no object is without its order.
    fn documents(&mut self, wiring: &Wiring, orders: &BTreeMap<usize, i64>) {
        let mut rows: BTreeMap<i64, Vec<Document>> = BTreeMap::new();
        let statement = format!(
            "SELECT order_id || '|' || size || '|' || {HEX_SHA256} || '|' || key AS line FROM documents ORDER BY order_id, position"
        );
        for line in wiring.lines(&statement) {
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
            let sent = Wanted(*number).documents();
            let whole = rows.len() == sent.len()
                && rows.iter().zip(&sent).all(|(row, sent)| {
                    let object = objects.remove(&row.key);
                    object == Some((row.size, row.sha256.clone()))
                        && object == Some((sent.len(), hex_sha256(sent)))
                });
            if !whole {
                self.half.push(*number);
            }
        }
        self.strange.extend(
            rows.keys().map(|order| format!("documents of order {order}, which is not there")),
        );
        self.orphans = objects.into_keys().collect();
    }

    fn mails(&mut self, wiring: &Wiring, orders: &BTreeMap<usize, i64>) {
        let mut delivered: BTreeMap<String, usize> = BTreeMap::new();
        for mail in wiring.mails() {
            let to = mail.lines().find_map(|line| line.strip_prefix("To: ")).unwrap();
            *delivered.entry(to.trim_matches(['<', '>']).to_owned()).or_default() += 1;
        }
        self.mails = delivered.values().sum();
        self.mails_again = self.mails - delivered.len();
        self.without_mail = orders
            .keys()
            .copied()
            .filter(|number| !delivered.contains_key(&Wanted(*number).contact()))
            .collect();
    }

    /// Objects without an order.
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    pub fn assert_all_kept(&self) {
        let Self { lost, twice, strange, half, orphans, without_mail, .. } = self;
        assert!(
            lost.is_empty() && half.is_empty() && without_mail.is_empty(),
            "lost {lost:?}, half there {half:?}, without mail {without_mail:?}"
        );
        assert!(
            twice.is_empty() && strange.is_empty() && orphans.is_empty(),
            "twice {twice:?}, unasked for {strange:?}, orphans {orphans:?}"
        );
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "in the stores: {} orders, {} documents, {} mails ({} of them again)",
            self.orders, self.documents, self.mails, self.mails_again
        )?;
        let [lost, half, without_mail] = [&self.lost, &self.half, &self.without_mail].map(Vec::len);
        let [twice, strange, orphans] = [&self.twice, &self.strange, &self.orphans].map(Vec::len);
        writeln!(
            formatter,
            "{lost} lost, {twice} twice, {half} half there, {orphans} orphans, {strange} unasked for, {without_mail} without a mail"
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
