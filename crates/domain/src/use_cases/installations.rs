//! Use case: tell a copy of a database from its original, and make it the original.

use std::sync::Arc;

use crate::{
    installation::{CopiedDatabase, Installation},
    ports::{InstallationRepo, StoreError},
};

/// Compares the installation of a database with that of this process.
#[derive(Clone)]
pub struct Installations {
    /// Stores the installation.
    pub repo: Arc<dyn InstallationRepo>,
    /// What identifies the document store of this process.
    pub documents: String,
}

impl Installations {
    /// Records the installation of this process, unless one is recorded. Returns the copy, if another one
    /// is. A database of 0.1.0 has none.
    pub async fn begin(&self) -> Result<Option<CopiedDatabase>, StoreError> {
        let here = self.here().await?;
        let original = self.repo.record_first(&here).await?;
        if here.completes(&original) {
            self.repo.replace(&here).await?;
        }
        Ok(CopiedDatabase::of(original, here))
    }

    /// Returns the copy, if another installation is recorded. Writes nothing.
    pub async fn copy(&self) -> Result<Option<CopiedDatabase>, StoreError> {
        let Some(recorded) = self.repo.recorded().await? else { return Ok(None) };
        Ok(CopiedDatabase::of(recorded, self.here().await?))
    }

    /// Makes the database the original, and returns its new installation.
    pub async fn adopt(&self) -> Result<Installation, StoreError> {
        let here = self.here().await?;
        self.repo.replace(&here).await?;
        Ok(here)
    }

    async fn here(&self) -> Result<Installation, StoreError> {
        let database = self.repo.database_identity().await?;
        Ok(Installation { database, documents: self.documents.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::MockInstallationRepo;

    fn installation(database: &str) -> Installation {
        Installation { database: database.to_owned(), documents: "bucket".to_owned() }
    }

    fn installations(mut repo: MockInstallationRepo) -> Installations {
        repo.expect_database_identity().returning(|| Ok("here".to_owned()));
        Installations { repo: Arc::new(repo), documents: "bucket".to_owned() }
    }

    #[tokio::test]
    async fn first_start_takes_the_database_on() {
        let mut repo = MockInstallationRepo::new();
        repo.expect_record_first().once().returning(|installation| Ok(installation.clone()));
        assert_eq!(installations(repo).begin().await.unwrap(), None);
    }

    #[tokio::test]
    async fn database_of_another_installation_is_a_copy() {
        let copy = CopiedDatabase::of(installation("there"), installation("here"));
        let mut repo = MockInstallationRepo::new();
        repo.expect_record_first().once().returning(|_| Ok(installation("there")));
        repo.expect_recorded().once().returning(|| Ok(Some(installation("there"))));
        let installations = installations(repo);
        assert_eq!(installations.begin().await.unwrap(), copy);
        assert_eq!(installations.copy().await.unwrap(), copy);
    }

    /// Since a newer kernel tells the birth of its file, for example.
    #[tokio::test]
    async fn more_of_the_database_is_recorded_when_it_is_known() {
        let mut repo = MockInstallationRepo::new();
        repo.expect_record_first().once().returning(|_| Ok(installation("here")));
        repo.expect_database_identity().returning(|| Ok("here, born at 5".to_owned()));
        let is_complete = |one: &Installation| *one == installation("here, born at 5");
        repo.expect_replace().once().withf(is_complete).returning(|_| Ok(()));
        let installations = Installations { repo: Arc::new(repo), documents: "bucket".to_owned() };
        assert_eq!(installations.begin().await.unwrap(), None);
    }

    #[tokio::test]
    async fn database_without_an_installation_is_no_copy() {
        let mut repo = MockInstallationRepo::new();
        repo.expect_recorded().once().returning(|| Ok(None));
        assert_eq!(installations(repo).copy().await.unwrap(), None);
    }

    #[tokio::test]
    async fn adopted_database_belongs_here() {
        let mut repo = MockInstallationRepo::new();
        let is_here = |one: &Installation| *one == installation("here");
        repo.expect_replace().once().withf(is_here).returning(|_| Ok(()));
        assert_eq!(installations(repo).adopt().await.unwrap(), installation("here"));
    }
}
