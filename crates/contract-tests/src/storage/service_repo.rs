//! The contract of `ServiceRepo`.

use domain::{order::SigningServiceId, ports::Standing, signing_service::SigningService};

use crate::samples::{Storage, recipient};

fn service(id: i64, name: &str, emails: usize) -> SigningService {
    let emails = (0..emails).map(recipient).collect();
    SigningService { id: SigningServiceId(id), name: name.to_owned(), emails }
}

/// With any name, and without addresses.
pub async fn record_is_read_as_it_was_added(storage: &Storage) {
    let services = [service(i64::MAX, "Müller & Söhne 'é\"\\%", 3), service(7, "Seven", 0)];
    for one in &services {
        assert!(storage.services.add(one).await.unwrap());
    }
    let [largest, seven] = services;
    assert_eq!(storage.services.all().await.unwrap(), [seven.clone(), largest]);
    let asked = [SigningServiceId(7), SigningServiceId(8)];
    assert_eq!(storage.services.find(&asked).await.unwrap(), [seven]);
    assert_eq!(storage.services.find(&[]).await.unwrap(), []);
}

/// The record that is there stays.
pub async fn number_has_one_record(storage: &Storage) {
    let first = service(7, "First", 1);
    assert!(storage.services.add(&first).await.unwrap());
    assert!(!storage.services.add(&service(7, "Second", 2)).await.unwrap());
    assert_eq!(storage.services.all().await.unwrap(), [first]);
}

/// A number without a record changes nothing.
pub async fn record_is_changed_and_removed(storage: &Storage) {
    let (before, other) = (service(7, "Before", 1), service(8, "Other", 1));
    let after = service(7, "After", 2);
    assert!(!storage.services.change(&after).await.unwrap());
    for one in [&before, &other] {
        assert!(storage.services.add(one).await.unwrap());
    }
    assert!(storage.services.change(&after).await.unwrap());
    assert_eq!(storage.services.all().await.unwrap(), [after, other.clone()]);
    assert!(storage.services.remove(SigningServiceId(7)).await.unwrap());
    assert!(!storage.services.remove(SigningServiceId(7)).await.unwrap());
    assert_eq!(storage.services.all().await.unwrap(), [other]);
}

/// It is known at once, and no longer when the record is removed.
pub async fn standing_of_a_number_depends_on_all_records(storage: &Storage) {
    let services = &storage.services;
    let standing = async |id| services.standing(SigningServiceId(id)).await.unwrap();
    assert_eq!(standing(7).await, Standing::NoRecords);
    assert!(services.add(&service(7, "Seven", 1)).await.unwrap());
    assert_eq!((standing(7).await, standing(8).await), (Standing::Recorded, Standing::Unknown));
    assert!(services.remove(SigningServiceId(7)).await.unwrap());
    assert_eq!((standing(7).await, standing(8).await), (Standing::NoRecords, Standing::NoRecords));
}
