//! Sizes and durations in words.

use time::Duration;

/// Writes a size in the largest unit that divides it: "10 MiB".
pub(super) fn size(bytes: u64) -> String {
    let (n, unit) = in_largest(bytes, [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]);
    format!("{n} {}", unit.unwrap_or("bytes"))
}

/// Writes a duration in the largest unit that divides it: "1 minute", "24 hours".
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.whole_seconds().unsigned_abs();
    let (n, unit) = in_largest(seconds, [(3_600, "hour"), (60, "minute")]);
    format!("{n} {}{}", unit.unwrap_or("second"), if n == 1 { "" } else { "s" })
}

fn in_largest<const N: usize>(
    amount: u64,
    units: [(u64, &'static str); N],
) -> (u64, Option<&'static str>) {
    let divides = |(size, _): &(u64, _)| amount > 0 && amount.is_multiple_of(*size);
    let unit = units.into_iter().find(divides);
    unit.map_or((amount, None), |(size, unit)| (amount / size, Some(unit)))
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
