//! The contract of `InstallationRepo`.

use domain::installation::Installation;

use crate::samples::{Storage, at_once};

fn installation(database: &str) -> Installation {
    Installation { database: database.to_owned(), documents: "s3://bücket/'a'".to_owned() }
}

/// Of several processes that start at once, too.
pub async fn first_installation_is_recorded(storage: &Storage) {
    assert_eq!(storage.installation.recorded().await.unwrap(), None);
    let starts = ["one", "two", "three"].map(|database| {
        let repo = storage.installation.clone();
        async move { repo.record_first(&installation(database)).await.unwrap() }
    });
    let found = at_once(starts).await;
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    assert_eq!(storage.installation.recorded().await.unwrap().as_ref(), Some(&found[0]));
}

/// Whether one is recorded or not.
pub async fn replaced_installation_is_recorded(storage: &Storage) {
    for database in ["one", "two"] {
        let next = installation(database);
        storage.installation.replace(&next).await.unwrap();
        assert_eq!(storage.installation.recorded().await.unwrap(), Some(next.clone()));
        assert_eq!(storage.installation.record_first(&installation("three")).await.unwrap(), next);
    }
}

/// Every instance asks at its start.
pub async fn identity_of_the_database_stays(storage: &Storage) {
    let identity = storage.installation.database_identity().await.unwrap();
    storage.installation.replace(&installation(&identity)).await.unwrap();
    storage.create_all(["F-1"]).await;
    assert_eq!(storage.installation.database_identity().await.unwrap(), identity);
}
