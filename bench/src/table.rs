//! Tables in Markdown.

/// Prints a table with a title.
pub fn print(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("\n**{title}**\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// The target of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn met_by(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }
}

/// Returns a row of a table of targets, with the columns [`TARGET_COLUMNS`].
pub fn target(label: &str, rounds: &[f64], unit: &str, bound: Bound) -> Vec<String> {
    let figure = crate::latency::median(rounds.iter().copied());
    let target = match bound {
        Bound::AtLeast(bound) => format!("≥ {bound}{unit}"),
        Bound::AtMost(bound) => format!("≤ {bound}{unit}"),
    };
    let met = if bound.met_by(figure) { "yes" } else { "no" };
    let mut row = without_target(label, rounds, unit);
    row.splice(3.., [target, met.to_owned()]);
    row
}

/// Returns a row of a table of targets for a figure that has none.
pub fn without_target(label: &str, rounds: &[f64], unit: &str) -> Vec<String> {
    let figure = crate::latency::median(rounds.iter().copied());
    let (least, greatest) = (
        rounds.iter().copied().fold(f64::INFINITY, f64::min),
        rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    vec![
        label.to_owned(),
        format!("{}{unit}", short(figure)),
        format!("{} to {}", short(least), short(greatest)),
        String::new(),
        String::new(),
    ]
}

pub const TARGET_COLUMNS: [&str; 5] = ["figure", "median", "rounds", "target", "met"];

/// Formats a figure with about three significant digits.
pub fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        size if size >= 0.1 => format!("{figure:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{figure:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_decides_whether_a_target_is_met() {
        let row = target("ratio", &[0.5, 1.25, 1.0], "", Bound::AtLeast(1.0));
        assert_eq!(row, ["ratio", "1.00", "0.50 to 1.25", "≥ 1", "yes"]);
        assert_eq!(target("p99", &[2.1], " ms", Bound::AtMost(2.0))[4], "no");
        assert_eq!(without_target("p99", &[2.1], " ms")[1..], ["2.10 ms", "2.10 to 2.10", "", ""]);
    }
}
