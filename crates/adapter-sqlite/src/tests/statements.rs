//! The cache of prepared statements.

use std::{collections::BTreeSet, sync::Mutex};

use contract_tests::samples::call_in_many_shapes;
use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};

use super::*;

/// The texts that the connections of this process have prepared and keep.
static KEPT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

#[expect(clippy::needless_pass_by_value, reason = "diesel gives the event to the function")]
fn note_kept(event: InstrumentationEvent<'_>) {
    if let InstrumentationEvent::CacheQuery { sql, .. } = event {
        KEPT.lock().unwrap().insert(sql.to_owned());
    }
}

/// The connections never forget a text. Other tests of this process add some.
#[tokio::test]
async fn prepared_statements_stay_few_whatever_clients_send() {
    let note: fn() -> Option<Box<dyn Instrumentation>> = || Some(Box::new(note_kept));
    set_default_instrumentation(note).unwrap();
    let directory = tempdir().unwrap();
    let store = open(&directory).await;
    call_in_many_shapes(&store).await;
    let kept = KEPT.lock().unwrap();
    assert!((20..300).contains(&kept.len()), "{} {kept:#?}", kept.len());
}
