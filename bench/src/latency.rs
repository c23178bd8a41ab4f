//! Exact percentiles of measured times, and medians over rounds.

use std::time::Duration;

/// Times in microseconds, in ascending order.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    pub fn new(mut microseconds: Vec<u32>) -> Self {
        microseconds.sort_unstable();
        Self(microseconds)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a percentile (nearest rank) in milliseconds, or 0 if there are no times.
    pub fn percentile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0
            .get(rank.saturating_sub(1))
            .map_or(0.0, |microseconds| f64::from(*microseconds) / 1000.0)
    }
}

/// Converts to whole microseconds.
pub fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Returns the median, for an even count the mean of the middle two.
pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len().is_multiple_of(2) {
        f64::midpoint(figures[middle - 1], figures[middle])
    } else {
        figures[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let latencies =
            Latencies::new((1..=1000).rev().map(|milliseconds| milliseconds * 1000).collect());
        assert_eq!(
            [0.5, 0.99, 0.999, 1.0].map(|share| latencies.percentile(share)),
            [500.0, 990.0, 999.0, 1000.0]
        );
        let few = Latencies::new(vec![3000, 1000, 2000]);
        assert_eq!([0.0, 0.5, 0.99].map(|share| few.percentile(share)), [1.0, 2.0, 3.0]);
        assert_eq!(Latencies::default().percentile(0.99), 0.0);
    }

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(
            [median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0]), median([7.0])],
            [2.0, 2.5, 7.0]
        );
    }
}
