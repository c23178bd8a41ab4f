use super::*;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of `fit`")]
fn all(_: &[u32], _: &u32) -> Fit {
    Fit::Goes
}

#[test]
fn lone_work_is_committed_at_once() {
    let group = Group::new(1, 8);
    let mut committer = group.join(1).unwrap();
    assert_eq!(committer.next(all), Some(vec![1]));
    assert_eq!(committer.next(all), None);
    // That committer has ended, so the next work makes another one.
    assert_eq!(group.join(2).unwrap().next(all), Some(vec![2]));
}

#[test]
fn batch_takes_all_waiting_work() {
    let group = Group::new(1, 8);
    let mut committer = group.join(1).unwrap();
    assert!(group.join(2).is_none());
    assert_eq!(committer.next(all), Some(vec![1, 2]));
    assert!(group.join(3).is_none() && group.join(4).is_none());
    assert_eq!(committer.next(all), Some(vec![3, 4]));
    assert_eq!(committer.next(all), None);
}

#[test]
fn observer_gets_the_size_of_each_batch() {
    let group = Group::new(1, 2);
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let observed = Arc::clone(&sizes);
    group.observe(Arc::new(move |size| observed.lock().unwrap().push(size)));
    let mut committer = group.join(1).unwrap();
    (2..=3).for_each(|number| assert!(group.join(number).is_none()));
    assert_eq!(group.waiting(), 3);
    while committer.next(all).is_some() {}
    assert_eq!((group.waiting(), &*sizes.lock().unwrap()), (0, &vec![2, 1]));
}

#[test]
fn batch_is_bounded_and_ordered() {
    let group = Group::new(1, 3);
    let mut committer = group.join(1).unwrap();
    (2..=7).for_each(|number| assert!(group.join(number).is_none()));
    assert_eq!(committer.next(all), Some(vec![1, 2, 3]));
    assert_eq!(committer.next(all), Some(vec![4, 5, 6]));
    assert_eq!(committer.next(all), Some(vec![7]));
}

#[test]
fn conflicting_work_waits_and_keeps_its_order() {
    let group = Group::new(1, 3);
    let once =
        |batch: &[u32], number: &u32| if batch.contains(number) { Fit::Waits } else { Fit::Goes };
    let mut committer = group.join(1).unwrap();
    for number in [1, 2, 1, 3, 4] {
        assert!(group.join(number).is_none());
    }
    assert_eq!(committer.next(once), Some(vec![1, 2, 3]));
    assert_eq!(committer.next(once), Some(vec![1, 4]));
    assert_eq!(committer.next(once), Some(vec![1]));
    assert_eq!(committer.next(once), None);
}

#[test]
fn abandoned_work_is_dropped() {
    let group = Group::new(1, 8);
    let even =
        |_: &[u32], number: &u32| if number.is_multiple_of(2) { Fit::Goes } else { Fit::Gone };
    let mut committer = group.join(1).unwrap();
    assert!(group.join(2).is_none());
    assert_eq!(committer.next(even), Some(vec![2]));
    assert!(group.join(3).is_none());
    assert_eq!(committer.next(even), None);
}

#[test]
fn committers_are_limited() {
    let group = Group::new(2, 1);
    let (mut first, mut second) = (group.join(1).unwrap(), group.join(2).unwrap());
    assert!(group.join(3).is_none());
    assert_eq!(
        (first.next(all), second.next(all), first.next(all)),
        (Some(vec![1]), Some(vec![2]), Some(vec![3]))
    );
    assert_eq!(second.next(all), None);
    assert!(group.join(4).is_some());
}

#[test]
fn dropping_the_last_committer_drops_waiting_work() {
    let group = Group::new(2, 8);
    let (first, second) = (Arc::new(()), Arc::new(()));
    let committer = group.join(Arc::clone(&first)).unwrap();
    let other = group.join(Arc::clone(&second)).unwrap();
    drop(committer);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (2, 2));
    // The callers notice that their work was dropped.
    drop(other);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    assert!(group.join(first).is_some());
}

#[test]
fn last_committer_gives_up_all_waiting_work() {
    let group = Group::new(1, 1);
    let committer = group.join(1).unwrap();
    assert!(group.join(2).is_none());
    assert_eq!(committer.give_up().collect::<Vec<_>>(), [1, 2]);
    assert!(group.join(3).is_some());
}

#[test]
fn give_up_leaves_work_to_another_committer() {
    let group = Group::new(2, 8);
    let (first, mut second) = (group.join(1).unwrap(), group.join(2).unwrap());
    assert_eq!(first.give_up().count(), 0);
    assert_eq!(second.next(all), Some(vec![1, 2]));
}
