//! Use case: name the people and the keys that did something, to their own side and to operators.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    api_key::Party,
    document::DocumentKind,
    order::{Actor, StoredOrder},
    person::Doer,
    ports::{PersonRepo, StoreError},
};

/// Names those who did something.
#[derive(Clone)]
pub struct NameDoers {
    /// Knows the names.
    pub people: Arc<dyn PersonRepo>,
}

/// The reader of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    /// A side: it sees the names of its own people and keys.
    Side(Party),
    /// An operator: sees all.
    Operator,
}

/// The names that a viewer sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoerNames {
    viewer: Viewer,
    names: BTreeMap<Doer, String>,
}

impl Viewer {
    fn sees(self, actor: Actor) -> bool {
        match self {
            Self::Side(party) => actor.is_of(party),
            Self::Operator => true,
        }
    }
}

impl NameDoers {
    /// Returns the names of those who acted for a side, if the viewer sees them. Asks the store once, and for nothing
    /// if there is nobody to name.
    pub async fn named(
        &self,
        viewer: Viewer,
        acts: impl IntoIterator<Item = (Actor, Option<Doer>)>,
    ) -> Result<DoerNames, StoreError> {
        let seen = acts.into_iter().filter(|(actor, _)| viewer.sees(*actor));
        let mut doers: Vec<Doer> = seen.filter_map(|(_, doer)| doer).collect();
        doers.sort_unstable();
        doers.dedup();
        let names = match &doers[..] {
            [] => BTreeMap::new(),
            doers => self.people.names_of(doers).await?,
        };
        Ok(DoerNames { viewer, names })
    }

    /// Returns the names of those who made, changed and noted an order and uploaded its documents.
    pub async fn of_order(
        &self,
        viewer: Viewer,
        order: &StoredOrder,
    ) -> Result<DoerNames, StoreError> {
        let changes = order.history().map(|change| (change.actor, change.by)).collect::<Vec<_>>();
        let notes = order.notes.iter().map(|note| (note.author, note.by));
        let documents = DocumentKind::ALL.into_iter().flat_map(|kind| {
            let documents = order.documents_of(kind).iter();
            documents.map(move |document| (Actor::uploading(kind), order.uploader(document)))
        });
        self.named(viewer, changes.into_iter().chain(notes).chain(documents)).await
    }
}

impl DoerNames {
    /// Names nobody.
    pub fn none(viewer: Viewer) -> Self {
        Self { viewer, names: BTreeMap::new() }
    }

    /// Returns the name of the one who acted for a side, if the viewer sees it.
    pub fn by(&self, actor: Actor, doer: Option<Doer>) -> Option<&str> {
        let name = self.names.get(&doer?)?;
        self.viewer.sees(actor).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api_key::{ApiKeyId, ClientId},
        people::SigningServiceId,
        person::PersonId,
        ports::MockPersonRepo,
    };

    const CLIENT: Party = Party::Client(ClientId(1));
    const JANE: Doer = Doer::Person(PersonId(3));
    const KEY: Doer = Doer::Key(ApiKeyId(4));

    async fn named(viewer: Viewer) -> Vec<Option<String>> {
        let mut people = MockPersonRepo::new();
        people.expect_names_of().returning(|doers| {
            let name = |doer: &Doer| if *doer == JANE { "Jane Doe" } else { "dispatch" };
            Ok(doers.iter().map(|doer| (*doer, name(doer).to_owned())).collect())
        });
        let acts = [
            (Actor::Client, Some(JANE)),
            (Actor::Service, Some(KEY)),
            (Actor::Operator, None),
            (Actor::Client, None),
        ];
        let naming = NameDoers { people: Arc::new(people) };
        let names = naming.named(viewer, acts).await.unwrap();
        acts.map(|(actor, doer)| names.by(actor, doer).map(str::to_owned)).into()
    }

    #[tokio::test]
    async fn side_sees_its_own_names_and_operators_all() {
        let (jane, dispatch) = (Some("Jane Doe".to_owned()), Some("dispatch".to_owned()));
        assert_eq!(named(Viewer::Side(CLIENT)).await, [jane.clone(), None, None, None]);
        let service = Viewer::Side(Party::Service(SigningServiceId(7)));
        assert_eq!(named(service).await, [None, dispatch.clone(), None, None]);
        assert_eq!(named(Viewer::Operator).await, [jane, dispatch, None, None]);
    }

    #[tokio::test]
    async fn store_is_not_asked_for_nobody() {
        let naming = NameDoers { people: Arc::new(MockPersonRepo::new()) };
        let acts = [(Actor::Service, Some(KEY)), (Actor::Client, None)];
        let names = naming.named(Viewer::Side(CLIENT), acts).await.unwrap();
        assert_eq!(names, DoerNames::none(Viewer::Side(CLIENT)));
    }
}
