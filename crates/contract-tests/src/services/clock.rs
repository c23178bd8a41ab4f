//! The contract of `Clock`.

use domain::ports::Clock;
use time::macros::datetime;

/// Every store keeps such instants exactly.
pub fn instants_are_utc_and_whole_microseconds(clock: &dyn Clock) {
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now.offset().is_utc());
        assert_eq!(now.nanosecond() % 1_000, 0);
    }
}

/// The program was written in 2026.
pub fn time_is_after_2026(clock: &dyn Clock) {
    assert!(clock.now() >= datetime!(2026-01-01 00:00 UTC));
}

/// Whatever sets the clock.
pub fn monotonic_time_never_goes_back(clock: &dyn Clock) {
    let mut last = clock.monotonic();
    for _ in 0..1_000 {
        let now = clock.monotonic();
        assert!(now >= last);
        last = now;
    }
}

/// Holds unless the clock is set during the test.
pub fn time_does_not_run_backwards(clock: &dyn Clock) {
    let mut last = clock.now();
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}
