//! Use case: follow the time of the database, and stop what a wrong clock would destroy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use time::{Duration, OffsetDateTime};

use crate::{
    clock_watch::{ClockWatch, Doubt, Reading},
    ports::{Clock, DatabaseTime, DatabaseTimes, StoreError},
    use_cases::background::{Step, Worker},
};

/// Pause between two readings of the database's clock. Machines differ by less than a millisecond meanwhile.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(10);

/// A reading that took longer is too inexact.
const LONGEST_READING: Duration = Duration::SECOND;

/// The time of the service: that of the database if it has a clock, else that of the machine. A step of either
/// changes it only if it is kept ([`ClockWatch`]).
pub struct WatchedClock {
    machine: Arc<dyn Clock>,
    has_database_clock: bool,
    watch: Mutex<ClockWatch>,
}

impl WatchedClock {
    /// Reads the clocks for the first time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn start(
        machine: Arc<dyn Clock>,
        database: &dyn DatabaseTime,
    ) -> Result<Self, StoreError> {
        let (DatabaseTimes { now, newest }, _, monotonic) = read(&*machine, database).await?;
        let source = Reading { at: now.unwrap_or_else(|| machine.now()), monotonic };
        let mut watch = ClockWatch::new(source, newest);
        if now.is_some() {
            watch.compare(read_own(&*machine));
        }
        Ok(Self { machine, has_database_clock: now.is_some(), watch: Mutex::new(watch) })
    }

    /// Returns how far the clock of the machine is ahead of the time of the service.
    pub fn machine_ahead(&self) -> Duration {
        let (_, watch) = self.look();
        let own = read_own(&*self.machine);
        own.at - watch.now(own.monotonic)
    }

    fn lock(&self) -> MutexGuard<'_, ClockWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the monotonic clock. Follows the clock of the machine if the database has none.
    fn look(&self) -> (Duration, MutexGuard<'_, ClockWatch>) {
        let mut watch = self.lock();
        if self.has_database_clock {
            return (self.machine.monotonic(), watch);
        }
        let own = read_own(&*self.machine);
        watch.follow(own);
        (own.monotonic, watch)
    }

    /// Reads the clock of the database, if it has one. Only then it is compared with the clock of the machine, which
    /// decides nothing: both may be one clock, and that of the database was read before a step.
    async fn follow(&self, database: &dyn DatabaseTime) -> Result<(), StoreError> {
        let (DatabaseTimes { now, .. }, took, monotonic) = read(&*self.machine, database).await?;
        if let Some(at) = now.filter(|_| took <= LONGEST_READING) {
            let mut watch = self.lock();
            watch.follow(Reading { at, monotonic });
            watch.compare(read_own(&*self.machine));
        }
        Ok(())
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> OffsetDateTime {
        let (monotonic, watch) = self.look();
        watch.now(monotonic).truncate_to_microsecond()
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }

    fn now_to_erase(&self) -> Option<OffsetDateTime> {
        let (monotonic, watch) = self.look();
        let now = watch.now(monotonic).truncate_to_microsecond();
        watch.may_erase(monotonic).then_some(now)
    }

    fn now_to_lease(&self) -> Option<OffsetDateTime> {
        let (monotonic, watch) = self.look();
        let now = watch.now(monotonic).truncate_to_microsecond();
        watch.may_lease(monotonic).then_some(now)
    }
}

/// Reads the clock of the machine.
fn read_own(machine: &dyn Clock) -> Reading {
    Reading { at: machine.now(), monotonic: machine.monotonic() }
}

/// Reads the database. Returns also how long it took, and the monotonic clock in its middle.
async fn read(
    clock: &dyn Clock,
    database: &dyn DatabaseTime,
) -> Result<(DatabaseTimes, Duration, Duration), StoreError> {
    let before = clock.monotonic();
    let times = database.times().await?;
    let took = clock.monotonic() - before;
    Ok((times, took, before + took / 2))
}

/// What a look at the clocks found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockState {
    /// A new reason to doubt a clock.
    pub doubt: Option<Doubt>,
    /// Whether erasures wait.
    pub erasures_wait: bool,
    /// Whether nothing is leased.
    pub deliveries_wait: bool,
    /// Whether erasures went on since the last look.
    pub goes_on: bool,
    /// How far the clock of the machine is ahead of the time of the service.
    pub machine_ahead: Duration,
}

/// Looks at the clocks.
pub struct WatchClock {
    clock: Arc<WatchedClock>,
    database: Arc<dyn DatabaseTime>,
    waited: bool,
}

impl WatchClock {
    /// Returns a worker that has not looked yet.
    pub fn new(clock: Arc<WatchedClock>, database: Arc<dyn DatabaseTime>) -> Self {
        Self { clock, database, waited: false }
    }
}

impl Worker for WatchClock {
    type Done = ClockState;

    /// Reads the clocks.
    async fn step(&mut self) -> Step<ClockState> {
        if let Err(error) = self.clock.follow(&*self.database).await {
            return Step { result: Err(error), pause: PAUSE };
        }
        let machine_ahead = self.clock.machine_ahead();
        let (monotonic, mut watch) = self.clock.look();
        let erasures_wait = !watch.may_erase(monotonic);
        let state = ClockState {
            doubt: watch.take_news(),
            erasures_wait,
            deliveries_wait: !watch.may_lease(monotonic),
            goes_on: self.waited && !erasures_wait,
            machine_ahead,
        };
        self.waited = erasures_wait;
        Step { result: Ok(state), pause: PAUSE }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::{
        clock_watch::AGREED, delivery::LEASE, ports::MockDatabaseTime, test_support::down,
    };

    const NOW: OffsetDateTime = datetime!(2026-11-29 12:00 UTC);

    /// The clock of a machine that is set by so much, after so much time.
    #[derive(Default)]
    struct Machine(Mutex<(Duration, Duration)>);

    impl Machine {
        fn set(&self, by: Duration) {
            self.0.lock().unwrap().0 = by;
        }

        fn pass(&self, time: Duration) {
            self.0.lock().unwrap().1 += time;
        }
    }

    impl Clock for Machine {
        fn now(&self) -> OffsetDateTime {
            let (set_by, passed) = *self.0.lock().unwrap();
            NOW + set_by + passed
        }

        fn monotonic(&self) -> Duration {
            self.0.lock().unwrap().1
        }
    }

    /// Returns a database whose clock is right.
    fn server(machine: &Arc<Machine>) -> Arc<MockDatabaseTime> {
        server_with(machine, |machine| NOW + machine.monotonic())
    }

    fn server_with(
        machine: &Arc<Machine>,
        now: impl Fn(&Machine) -> OffsetDateTime + Send + Sync + 'static,
    ) -> Arc<MockDatabaseTime> {
        let (mut database, machine) = (MockDatabaseTime::new(), Arc::clone(machine));
        database
            .expect_times()
            .returning(move || Ok(DatabaseTimes { now: Some(now(&machine)), newest: Some(NOW) }));
        Arc::new(database)
    }

    /// Returns a database that is a file.
    fn file(newest: Option<OffsetDateTime>) -> MockDatabaseTime {
        let mut database = MockDatabaseTime::new();
        database.expect_times().once().returning(move || Ok(DatabaseTimes { now: None, newest }));
        database
    }

    #[tokio::test]
    async fn instance_has_the_time_of_the_database_whatever_its_machine_says() {
        let machine = Arc::new(Machine::default());
        machine.set(Duration::minutes(-10));
        let database = server(&machine);
        let clock = WatchedClock::start(machine.clone(), &*database).await.unwrap();
        machine.pass(Duration::MINUTE);
        clock.follow(&*database).await.unwrap();
        assert_eq!(clock.now(), NOW + Duration::MINUTE);
        assert_eq!((clock.now_to_erase(), clock.now_to_lease()), (None, None));
        assert_eq!(clock.machine_ahead(), Duration::minutes(-10));
        // Within a minute, it works.
        machine.set(Duration::seconds(50));
        clock.follow(&*database).await.unwrap();
        machine.pass(AGREED);
        let now = NOW + Duration::MINUTE + AGREED;
        assert_eq!((clock.now_to_erase(), clock.now_to_lease()), (Some(now), Some(now)));
    }

    /// The clock of the machine decides nothing, so no step of it counts until the database was asked.
    #[tokio::test]
    async fn step_of_a_machine_that_has_the_database_is_a_step_of_both() {
        let machine = Arc::new(Machine::default());
        let database = server_with(&machine, Machine::now);
        let clock = Arc::new(WatchedClock::start(machine.clone(), &*database).await.unwrap());
        machine.set(Duration::DAY);
        assert_eq!((clock.now(), clock.now_to_lease()), (NOW, Some(NOW)));
        let mut watch = WatchClock::new(clock.clone(), database);
        let state = watch.step().await.result.unwrap();
        assert_eq!(state.doubt, Some(Doubt::Stepped(Duration::DAY)));
        assert!(state.deliveries_wait && state.erasures_wait);
        // It is set right.
        machine.set(Duration::ZERO);
        machine.pass(LEASE);
        let state = watch.step().await.result.unwrap();
        assert!(!state.deliveries_wait && state.erasures_wait);
        assert_eq!(clock.now_to_lease(), Some(NOW + LEASE));
    }

    #[tokio::test]
    async fn embedded_service_has_the_time_of_its_machine_unless_it_steps() {
        let machine = Arc::new(Machine::default());
        let clock = WatchedClock::start(machine.clone(), &file(Some(NOW))).await.unwrap();
        assert_eq!(clock.now_to_erase(), Some(NOW));
        machine.set(Duration::days(4 * 365));
        assert_eq!((clock.now(), clock.now_to_erase()), (NOW, None));
        assert_eq!(clock.now_to_lease(), Some(NOW));
    }

    #[tokio::test]
    async fn doubt_is_reported_once_and_so_is_its_end() {
        let machine = Arc::new(Machine::default());
        let database = server(&machine);
        let clock = Arc::new(WatchedClock::start(machine.clone(), &*database).await.unwrap());
        let mut watch = WatchClock::new(clock, database);
        let ahead = Duration::DAY;
        for (set_by, passed, doubt, [erasures_wait, deliveries_wait], goes_on) in [
            (Duration::ZERO, Duration::SECOND, None, [false, false], false),
            (ahead, Duration::SECOND, Some(Doubt::Ahead(ahead)), [true, true], false),
            (ahead, Duration::SECOND, None, [true, true], false),
            (Duration::ZERO, Duration::SECOND, None, [true, true], false),
            (Duration::ZERO, LEASE, None, [true, false], false),
            (Duration::ZERO, AGREED, None, [false, false], true),
            (Duration::ZERO, Duration::SECOND, None, [false, false], false),
        ] {
            machine.set(set_by);
            machine.pass(passed);
            let state = watch.step().await.result.unwrap();
            let expected = ClockState {
                doubt,
                erasures_wait,
                deliveries_wait,
                goes_on,
                machine_ahead: set_by,
            };
            assert_eq!(state, expected);
        }
    }

    /// Without the database, the time goes on.
    #[tokio::test]
    async fn outage_of_the_database_is_a_failure_of_the_step() {
        let machine = Arc::new(Machine::default());
        let clock = WatchedClock::start(machine.clone(), &*server(&machine)).await.unwrap();
        let clock = Arc::new(clock);
        let mut database = MockDatabaseTime::new();
        database.expect_times().once().returning(|| Err(down()));
        let mut watch = WatchClock::new(clock.clone(), Arc::new(database));
        assert!(watch.step().await.result.is_err());
        machine.pass(Duration::HOUR);
        assert_eq!(clock.now(), NOW + Duration::HOUR);
    }
}
