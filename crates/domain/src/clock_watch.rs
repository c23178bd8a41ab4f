//! Which time holds, and whether it is sure enough to erase and to lease by it.
//!
//! The time of the service follows a source: the clock of the database server, or the clock of the machine if the
//! database has none. Between two readings it goes on with the monotonic clock. A source that steps is followed
//! only after it has kept its step for [`STEP_KEPT`].

use time::{Duration, OffsetDateTime};

use crate::delivery::LEASE;

/// Greatest difference between the clock of a machine and that of its database.
pub const TOLERATED: Duration = Duration::MINUTE;

/// Step of a source that is followed at once. It is less than a lease exceeds an attempt.
const SMALL_STEP: Duration = Duration::seconds(10);

/// How long a source keeps a larger step before the service follows it. A wrong clock is usually set right sooner.
pub const STEP_KEPT: Duration = Duration::minutes(5);

/// How long all clocks must agree before anything is erased again.
pub const AGREED: Duration = Duration::HOUR;

/// What a clock showed, and the monotonic clock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What it showed.
    pub at: OffsetDateTime,
    /// The monotonic clock.
    pub monotonic: Duration,
}

impl Reading {
    /// Returns what the clock shows later, if it does not step.
    fn later(&self, monotonic: Duration) -> OffsetDateTime {
        self.at.saturating_add(monotonic - self.monotonic)
    }

    /// Returns how far a later reading of the clock is ahead of what was expected.
    fn step_to(&self, later: &Self) -> Duration {
        later.at - self.later(later.monotonic)
    }
}

/// Why a clock may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The source has stepped against the monotonic clock.
    Stepped(Duration),
    /// The clock of the machine is ahead of that of the database.
    Ahead(Duration),
    /// At the start, so much time lay between the newest stored instant and now. Negative: it lies in the future.
    Unused(Duration),
}

/// Judges the clocks of a process.
#[derive(Debug)]
pub struct ClockWatch {
    /// The source, as far as it is followed.
    held: Reading,
    /// The source since its last large step.
    step: Option<Reading>,
    /// The newest stored instant, if the source was doubtful at the start.
    doubted_for: Option<OffsetDateTime>,
    /// Whether the clock of the machine differed from the database's at the last comparison.
    differs: bool,
    /// When erasures may go on, by the monotonic clock.
    erases_from: Duration,
    /// The same for leases.
    leases_from: Duration,
    /// A doubt that was not reported yet.
    news: Option<Doubt>,
}

impl ClockWatch {
    /// Begins with a reading of the source. `newest` is the newest instant that the database has stored: after a
    /// long time without one, the source may be ahead.
    pub fn new(source: Reading, newest: Option<OffsetDateTime>) -> Self {
        let start = source.monotonic;
        let mut watch = Self {
            held: source,
            step: None,
            doubted_for: None,
            differs: false,
            erases_from: start,
            leases_from: start,
            news: None,
        };
        let unused = newest.map_or(Duration::ZERO, |newest| source.at - newest);
        if unused > AGREED || unused < -TOLERATED {
            watch.doubted_for = newest;
            watch.erases_from = start + AGREED;
            watch.news = Some(Doubt::Unused(unused));
        }
        watch
    }

    /// Notes a reading of the source.
    pub fn follow(&mut self, source: Reading) {
        let by = self.held.step_to(&source);
        if by.abs() <= SMALL_STEP {
            (self.held, self.step) = (source, None);
            return;
        }
        self.erases_from = source.monotonic + AGREED;
        let kept = self.step.filter(|step| step.step_to(&source).abs() <= SMALL_STEP);
        let is_kept = kept.is_some_and(|step| source.monotonic - step.monotonic >= STEP_KEPT);
        if kept.is_none() {
            self.step = Some(source);
            self.news = Some(Doubt::Stepped(by));
        }
        if is_kept || self.corrects_start(source) {
            (self.held, self.step, self.doubted_for) = (source, None, None);
            // Every attempt in progress ends meanwhile, or renews its lease by the new time.
            self.leases_from = source.monotonic + LEASE;
        }
    }

    /// Returns whether a source that was doubtful at the start is nearer to the newest stored instant now.
    fn corrects_start(&self, source: Reading) -> bool {
        let held = self.now(source.monotonic);
        self.doubted_for.is_some_and(|newest| (source.at - newest).abs() < (held - newest).abs())
    }

    /// Compares the clock of the machine with the last reading of the source, which is another clock. Other
    /// processes follow it, too. While it has a step, they may have another time: those that started since do.
    pub fn compare(&mut self, own: Reading) {
        let ahead = self.step.unwrap_or(self.held).step_to(&own);
        let differs = ahead.abs() > TOLERATED;
        if differs {
            self.erases_from = own.monotonic + AGREED;
            // The step of the database explains the difference: its clock may be the wrong one.
            if !self.differs && !matches!(self.news, Some(Doubt::Stepped(_))) {
                self.news = Some(Doubt::Ahead(ahead));
            }
        }
        if differs || self.step.is_some() {
            self.leases_from = own.monotonic + LEASE;
        }
        self.differs = differs;
    }

    /// Returns the time that holds.
    pub fn now(&self, monotonic: Duration) -> OffsetDateTime {
        self.held.later(monotonic)
    }

    /// Returns whether deliveries may be leased.
    pub fn may_lease(&self, monotonic: Duration) -> bool {
        monotonic >= self.leases_from
    }

    /// Returns whether anything may be erased, expire for good or be given up because of its age.
    pub fn may_erase(&self, monotonic: Duration) -> bool {
        monotonic >= self.erases_from
    }

    /// Returns a doubt once, for the log.
    pub fn take_news(&mut self) -> Option<Doubt> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-29 12:00 UTC);
    const SECOND: Duration = Duration::SECOND;
    /// From a day back to ten years ahead.
    const STEPS: [Duration; 6] = [
        Duration::days(-1),
        Duration::seconds(-150),
        Duration::seconds(61),
        Duration::DAY,
        Duration::days(4 * 365),
        Duration::days(10 * 365),
    ];

    /// A clock that is set by so much, and the monotonic clock, so long after the start.
    fn reading(since_start: Duration, set_by: Duration) -> Reading {
        Reading { at: NOW + since_start + set_by, monotonic: since_start }
    }

    fn watch() -> ClockWatch {
        ClockWatch::new(reading(Duration::ZERO, Duration::ZERO), Some(NOW - Duration::MINUTE))
    }

    #[test]
    fn clock_that_agrees_is_followed_at_once() {
        let mut watch = watch();
        for (at, set_by) in [(1, 0), (2, 10), (3, 1), (4, -9)] {
            let [at, set_by] = [at, set_by].map(Duration::seconds);
            watch.follow(reading(at, set_by));
            assert_eq!(watch.now(at), NOW + at + set_by);
            assert!(watch.may_erase(at) && watch.may_lease(at));
        }
        assert_eq!(watch.take_news(), None);
    }

    #[test]
    fn step_of_a_minute_changes_no_time_and_stops_erasing_for_an_hour() {
        for step in STEPS {
            let mut watch = watch();
            for second in 1..=60 {
                let at = Duration::seconds(second);
                watch.follow(reading(at, step));
                assert_eq!(watch.now(at), NOW + at, "{step}");
                assert!(!watch.may_erase(at) && watch.may_lease(at), "{step}");
            }
            assert_eq!((watch.take_news(), watch.take_news()), (Some(Doubt::Stepped(step)), None));
            let back = Duration::seconds(61);
            watch.follow(reading(back, Duration::ZERO));
            assert_eq!(watch.now(back), NOW + back);
            let last = Duration::MINUTE + AGREED;
            watch.follow(reading(last, Duration::ZERO));
            assert!(!watch.may_erase(last - SECOND) && watch.may_erase(last), "{step}");
        }
    }

    #[test]
    fn step_that_is_kept_is_followed_and_stops_leases_for_one() {
        for step in STEPS {
            let mut watch = watch();
            watch.follow(reading(SECOND, step));
            let end = SECOND + STEP_KEPT;
            watch.follow(reading(end - SECOND, step));
            assert_eq!(watch.now(end - SECOND), NOW + end - SECOND);
            watch.follow(reading(end, step));
            assert_eq!(watch.now(end), NOW + end + step);
            assert!(!watch.may_lease(end) && watch.may_lease(end + LEASE));
            assert!(!watch.may_erase(end) && watch.may_erase(end + AGREED));
        }
    }

    #[test]
    fn clock_that_steps_again_and_again_is_not_followed() {
        let mut watch = watch();
        for minute in 1..60 {
            let at = Duration::minutes(minute);
            watch.follow(reading(at, Duration::HOUR * i32::try_from(minute).unwrap()));
            assert_eq!(watch.now(at), NOW + at);
        }
    }

    #[test]
    fn instance_whose_clock_is_over_a_minute_off_leases_and_erases_nothing() {
        for step in STEPS {
            let mut watch = watch();
            for second in 1..=600 {
                let at = Duration::seconds(second);
                watch.follow(reading(at, Duration::ZERO));
                watch.compare(reading(at, step));
                assert_eq!(watch.now(at), NOW + at);
                assert!(!watch.may_lease(at) && !watch.may_erase(at), "{step}");
            }
            assert_eq!((watch.take_news(), watch.take_news()), (Some(Doubt::Ahead(step)), None));
            let right = Duration::seconds(600);
            watch.compare(reading(right + SECOND, TOLERATED));
            assert!(!watch.may_lease(right) && watch.may_lease(right + LEASE));
            assert!(!watch.may_erase(right + LEASE) && watch.may_erase(right + AGREED));
        }
    }

    #[test]
    fn step_of_a_clock_that_others_follow_stops_leases_until_all_have_the_same_time() {
        let steps = STEPS.map(|step| [(step, Duration::ZERO), (step, step)]);
        for (step, own) in steps.into_iter().flatten() {
            for (kept, passed) in [(false, Duration::MINUTE), (true, STEP_KEPT + SECOND)] {
                let mut watch = watch();
                for second in 1..=passed.whole_seconds() {
                    let at = Duration::seconds(second);
                    watch.follow(reading(at, step));
                    watch.compare(reading(at, own));
                    assert!(!watch.may_lease(at), "{step} {at}");
                }
                let (agree, set_by) = (passed + SECOND, if kept { step } else { Duration::ZERO });
                for second in 0..LEASE.whole_seconds() - 1 {
                    let at = agree + Duration::seconds(second);
                    watch.follow(reading(at, set_by));
                    watch.compare(reading(at, set_by));
                    assert_eq!(watch.now(at), NOW + at + set_by);
                    assert!(!watch.may_lease(at), "{step} {at}");
                }
                assert!(watch.may_lease(agree + LEASE), "{step}");
            }
        }
    }

    /// Its clocks stand still meanwhile, and NTP sets its own right later than it hears of the database's.
    #[test]
    fn paused_machine_goes_on_after_its_clocks_agree() {
        let (paused, corrected, mut watch) = (Duration::hours(3), Duration::minutes(2), watch());
        let followed = SECOND + STEP_KEPT;
        for second in 1..=followed.whole_seconds() {
            let at = Duration::seconds(second);
            watch.follow(reading(at, paused));
            watch.compare(reading(at, if at < corrected { Duration::ZERO } else { paused }));
            assert!(!watch.may_erase(at) && !watch.may_lease(at), "{at}");
        }
        assert_eq!(watch.now(followed), NOW + followed + paused);
        assert!(watch.may_lease(followed + LEASE) && watch.may_erase(followed + AGREED));
    }

    #[test]
    fn start_long_after_the_newest_stored_instant_or_before_it_waits_an_hour_with_erasing() {
        let minute = Duration::MINUTE;
        for (unused, waits) in [
            (-minute - SECOND, true),
            (-minute, false),
            (AGREED, false),
            (AGREED + SECOND, true),
            (Duration::days(4 * 365), true),
        ] {
            let first = reading(Duration::ZERO, Duration::ZERO);
            let mut watch = ClockWatch::new(first, Some(NOW - unused));
            assert_eq!(watch.take_news(), waits.then_some(Doubt::Unused(unused)));
            assert_eq!(watch.may_erase(AGREED - SECOND), !waits, "{unused}");
            assert!(watch.may_erase(AGREED) && watch.may_lease(Duration::ZERO));
        }
        let first = reading(Duration::ZERO, Duration::ZERO);
        assert!(ClockWatch::new(first, None).may_erase(Duration::ZERO));
    }

    #[test]
    fn clock_that_is_set_right_after_the_start_is_followed_at_once() {
        for step in STEPS {
            let mut watch = ClockWatch::new(reading(Duration::ZERO, step), Some(NOW));
            for second in 1..=60 {
                let at = Duration::seconds(second);
                watch.follow(reading(at, step));
                assert!(!watch.may_erase(at) || step <= AGREED && step >= -TOLERATED);
            }
            if watch.take_news().is_none() {
                continue;
            }
            let set = Duration::seconds(61);
            watch.follow(reading(set, Duration::ZERO));
            assert_eq!(watch.now(set), NOW + set, "{step}");
            assert!(!watch.may_erase(set + AGREED - SECOND) && watch.may_erase(set + AGREED));
        }
    }
}
