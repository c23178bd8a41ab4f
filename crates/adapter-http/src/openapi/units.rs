//! Sizes and durations in words.

use time::Duration;

/// Writes a size in the largest unit that divides it: "10 MiB".
pub(super) fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")];
    in_largest(bytes, &units)
        .map_or_else(|| "0 bytes".to_owned(), |(n, unit)| format!("{n} {unit}"))
}

/// Writes a duration in the largest unit that divides it: "1 minute", "24 hours".
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.whole_seconds().unsigned_abs();
    let units = [(3_600, "hour"), (60, "minute"), (1, "second")];
    match in_largest(seconds, &units) {
        Some((1, unit)) => format!("1 {unit}"),
        Some((n, unit)) => format!("{n} {unit}s"),
        None => "0 seconds".to_owned(),
    }
}

fn in_largest<'a>(amount: u64, units: &[(u64, &'a str)]) -> Option<(u64, &'a str)> {
    let (size, unit) = units.iter().find(|(size, _)| amount > 0 && amount.is_multiple_of(*size))?;
    Some((amount / size, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_exact_unit_is_used() {
        let sizes = [10 << 20, 256 << 10, 1_000_000, 1 << 30].map(size);
        assert_eq!(sizes, ["10 MiB", "256 KiB", "1000000 bytes", "1 GiB"]);
        let durations =
            [0, 1, 60, 90, 600, 86_400].map(|seconds| duration(Duration::seconds(seconds)));
        assert_eq!(
            durations,
            ["0 seconds", "1 second", "1 minute", "90 seconds", "10 minutes", "24 hours"]
        );
    }
}
