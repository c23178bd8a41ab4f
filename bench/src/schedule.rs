//! The times at which requests are due.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// How requests follow one another.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// Each connection sends the next request after the answer to the previous one.
    Closed,
    /// Requests are due at random moments with this rate per second, independent of answers, as
    /// with `pgbench --rate`.
    Open(f64),
}

/// Due times since the start, shared by all connections.
pub struct Schedule {
    due: Option<Vec<Duration>>,
    next: AtomicUsize,
}

impl Schedule {
    pub fn new(pace: Pace, length: Duration, seed: u64) -> Self {
        let due = match pace {
            Pace::Closed => None,
            Pace::Open(rate) => Some(arrivals(rate, length, seed)),
        };
        Self { due, next: AtomicUsize::new(0) }
    }

    /// Returns when the next request is due, or `None` if there are no more.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        match &self.due {
            None => Some(now),
            Some(due) => due.get(self.next.fetch_add(1, Ordering::Relaxed)).copied(),
        }
    }

    /// Counts the requests that are due from `since` on; `None` for a closed loop.
    pub fn due_since(&self, since: Duration) -> Option<usize> {
        self.due.as_ref().map(|due| due.len() - due.partition_point(|due| *due < since))
    }
}

/// Generates a Poisson process.
fn arrivals(rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at = 0.0;
    let gaps = std::iter::repeat_with(|| -(1.0 - random.f64()).ln() / rate);
    gaps.map(|gap| {
        at += gap;
        Duration::from_secs_f64(at)
    })
    .take_while(|due| *due < length)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_a_poisson_process() {
        let due = arrivals(1000.0, Duration::from_secs(20), 7);
        assert!((19_400..20_600).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted());
        // In a Poisson process, 1/e of the gaps are longer than the mean.
        let long = due
            .windows(2)
            .filter(|pair| pair[1].checked_sub(pair[0]).unwrap() > Duration::from_millis(1))
            .count();
        assert!((0.34..0.40).contains(&(long as f64 / due.len() as f64)), "{long}");
    }

    #[test]
    fn every_due_time_is_returned_once() {
        let schedule = Schedule::new(Pace::Open(500.0), Duration::from_secs(2), 1);
        let times: Vec<Duration> = std::iter::from_fn(|| schedule.next(Duration::ZERO)).collect();
        assert_eq!(Some(times.len()), schedule.due_since(Duration::ZERO));
        let late = times.iter().filter(|due| **due >= Duration::from_secs(1)).count();
        assert_eq!(schedule.due_since(Duration::from_secs(1)), Some(late));
    }

    #[test]
    fn closed_loop_is_always_due() {
        let schedule = Schedule::new(Pace::Closed, Duration::from_secs(1), 1);
        assert_eq!(schedule.next(Duration::from_secs(9)), Some(Duration::from_secs(9)));
        assert_eq!(schedule.due_since(Duration::ZERO), None);
    }
}
