//! The standard variables of OpenTelemetry. The libraries read them, and replace a wrong value by
//! its default; this module stops the start instead.

use std::collections::BTreeMap;

/// The environment has a wrong variable.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongVariable(pub(super) String);

/// The longest time in milliseconds: an hour.
const LONGEST: u64 = 3_600_000;
/// The most spans. The queue has room for all of them from the start.
const MOST_SPANS: u64 = 65_536;

/// The part of a name, the check of its value, and what the value must be.
type Check = (&'static str, fn(&str) -> bool, &'static str);

/// The parts of names after `OTEL_`, and what their values must be. A value may be a credential, so
/// no error quotes it.
const CHECKS: [Check; 9] = [
    ("_ENDPOINT", is_url, "a URL of a collector, such as http://127.0.0.1:4318"),
    ("_PROTOCOL", |value| value == "http/protobuf", "http/protobuf"),
    ("_COMPRESSION", |value| value == "none", "none"),
    ("_TIMEOUT", is_number::<LONGEST>, "a number from 1 to 3600000"),
    ("BSP_SCHEDULE_DELAY", is_number::<LONGEST>, "a number from 1 to 3600000"),
    ("BSP_MAX_QUEUE_SIZE", is_number::<MOST_SPANS>, "a number from 1 to 65536"),
    ("BSP_MAX_EXPORT_BATCH_SIZE", is_number::<MOST_SPANS>, "a number from 1 to 65536"),
    (
        "TRACES_SAMPLER",
        is_sampler,
        "always_on, always_off or traceidratio, or one of them after parentbased_",
    ),
    ("TRACES_SAMPLER_ARG", is_ratio, "a number from 0 to 1"),
];

fn is_url(value: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| value.starts_with(scheme))
}

fn is_number<const MOST: u64>(value: &str) -> bool {
    value.parse().is_ok_and(|number| (1..=MOST).contains(&number))
}

fn is_sampler(value: &str) -> bool {
    let root = value.strip_prefix("parentbased_").unwrap_or(value);
    ["always_on", "always_off", "traceidratio"].contains(&root)
}

fn is_ratio(value: &str) -> bool {
    value.parse().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio))
}

/// Returns whether the variables name a collector, and do not turn traces off. Fails if one of them
/// is wrong.
pub(super) fn names_collector(variables: &BTreeMap<String, String>) -> Result<bool, WrongVariable> {
    let get = |name: &str| variables.get(name).map_or("", |value| value.trim());
    let is_off = get("OTEL_SDK_DISABLED").eq_ignore_ascii_case("true")
        || get("OTEL_TRACES_EXPORTER") == "none"
        || get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").is_empty()
            && get("OTEL_EXPORTER_OTLP_ENDPOINT").is_empty();
    if is_off {
        return Ok(false);
    }
    let is_of_others =
        |name: &str| ["_OTLP_METRICS_", "_OTLP_LOGS_"].iter().any(|o| name.contains(o));
    for (name, value) in variables {
        let wrong = CHECKS.iter().find(|(end, is_right, _)| {
            name.starts_with("OTEL_") && name.ends_with(end) && !is_right(value.trim())
        });
        if let Some((.., expected)) =
            wrong.filter(|_| !value.trim().is_empty() && !is_of_others(name))
        {
            return Err(WrongVariable(format!("{name}: must be {expected}")));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<bool, WrongVariable> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        names_collector(&variables.iter().map(owned).collect())
    }

    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const COLLECTOR: (&str, &str) = (ENDPOINT, "http://127.0.0.1:4318");

    #[test]
    fn traces_are_off_without_a_collector() {
        for variables in [
            &[][..],
            &[(ENDPOINT, " ")],
            &[("OTEL_TRACES_SAMPLER", "nonsense")],
            &[COLLECTOR, ("OTEL_SDK_DISABLED", "TRUE")],
            &[COLLECTOR, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(!read(variables).unwrap(), "{variables:?}");
        }
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector.example/v1/traces");
        assert!(read(&[own, ("OTEL_SDK_DISABLED", "false")]).unwrap());
    }

    #[test]
    fn wrong_variable_is_named() {
        for (name, value) in [
            (ENDPOINT, "127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://secret@127.0.0.1:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3600001"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "18446744073709551615"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ] {
            let error = read(&[COLLECTOR, (name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: ")), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        for (name, value) in [
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.01"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", ""),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
        ] {
            assert!(read(&[COLLECTOR, (name, value)]).unwrap(), "{name}");
        }
    }
}
