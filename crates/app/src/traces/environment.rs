//! The standard variables of OpenTelemetry. The libraries read most of them; this module checks
//! what they would ignore, and so would surprise an operator.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_COMPRESSION, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS,
    OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL_HTTP_PROTOBUF,
    OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT,
    OTEL_EXPORTER_OTLP_TRACES_COMPRESSION, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_HEADERS, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,
};
use opentelemetry_sdk::{
    Resource,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::Sampler,
};
use percent_encoding::percent_decode_str;
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};

const OTEL_BSP_MAX_QUEUE_SIZE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
/// Spans that may wait for their export; the default of the specification.
const MAX_QUEUE_SIZE: usize = 2_048;
/// The largest such number. The queue has room for all from the start.
const MOST_SPANS: u64 = 65_536;
/// The longest time in milliseconds: an hour.
const LONGEST: u64 = 3_600_000;

/// What the environment says of traces.
pub(super) struct Environment {
    /// Decides which requests have a trace.
    pub(super) sampler: Sampler,
    /// Time limit of one export.
    pub(super) timeout: Duration,
    /// Maximum number of ended spans that are not exported yet.
    pub(super) max_queue_size: usize,
}

impl Environment {
    /// Reads the variables. Returns `None` if they name no collector, or turn traces off.
    pub(super) fn read(variables: &BTreeMap<String, String>) -> Result<Option<Self>> {
        let get = |name: &str| {
            variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
        };
        let of_either = |specific: &'static str, general: &'static str| {
            [specific, general].into_iter().find_map(|name| Some((name, get(name)?)))
        };
        let endpoint = of_either(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT);
        let is_off = get("OTEL_SDK_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"))
            || get("OTEL_TRACES_EXPORTER") == Some("none");
        let Some((name, endpoint)) = endpoint.filter(|_| !is_off) else { return Ok(None) };
        let is_http = |url: Url| matches!(url.scheme(), "http" | "https");
        ensure!(
            endpoint.parse().is_ok_and(is_http),
            "{name}: not a URL of a collector, such as http://127.0.0.1:4318"
        );
        if let Some((name, protocol)) =
            of_either(OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL)
        {
            let known = OTEL_EXPORTER_OTLP_PROTOCOL_HTTP_PROTOBUF;
            ensure!(protocol == known, "{name}: {protocol} is not supported; use {known}");
        }
        if let Some((name, compression)) =
            of_either(OTEL_EXPORTER_OTLP_TRACES_COMPRESSION, OTEL_EXPORTER_OTLP_COMPRESSION)
        {
            ensure!(compression == "none", "{name}: {compression} is not supported; use none");
        }
        if let Some((name, headers)) =
            of_either(OTEL_EXPORTER_OTLP_TRACES_HEADERS, OTEL_EXPORTER_OTLP_HEADERS)
        {
            // A value may be a credential, so no error quotes it.
            ensure!(
                headers.split_terminator(',').all(is_header),
                "{name}: not a list of NAME=VALUE, separated by commas, of HTTP headers"
            );
        }
        let milliseconds = of_either(OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT)
            .map(|(name, text)| number(name, text, LONGEST))
            .transpose()?;
        let number_of = |name, most| get(name).map(|text| number(name, text, most)).transpose();
        let max_queue_size = number_of(OTEL_BSP_MAX_QUEUE_SIZE, MOST_SPANS)?;
        number_of("OTEL_BSP_SCHEDULE_DELAY", LONGEST)?;
        number_of("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MOST_SPANS)?;
        Ok(Some(Self {
            sampler: sampler(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG"))?,
            timeout: milliseconds.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis),
            max_queue_size: match max_queue_size {
                Some(size) => usize::try_from(size)?,
                None => MAX_QUEUE_SIZE,
            },
        }))
    }
}

/// Returns whether a text is a header `NAME=VALUE`, whose value may be percent-encoded.
fn is_header(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| {
        let value = percent_decode_str(value.trim()).collect::<Vec<_>>();
        !value.is_empty()
            && name.trim().parse::<HeaderName>().is_ok()
            && HeaderValue::from_bytes(&value).is_ok()
    })
}

fn number(name: &str, text: &str, most: u64) -> Result<u64> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.with_context(|| format!("{name}: {text} is not a number from 1 to {most}"))
}

fn sampler(name: Option<&str>, argument: Option<&str>) -> Result<Sampler> {
    let ratio = || match argument.unwrap_or("1").parse() {
        Ok(ratio @ 0.0..=1.0) => Ok(Sampler::TraceIdRatioBased(ratio)),
        _ => bail!("OTEL_TRACES_SAMPLER_ARG: not a number from 0 to 1"),
    };
    let name = name.unwrap_or("parentbased_always_on");
    let (root, is_parent_based) = match name.strip_prefix("parentbased_") {
        Some(root) => (root, true),
        None => (name, false),
    };
    let root = match root {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => ratio()?,
        _ => bail!(
            "OTEL_TRACES_SAMPLER: {name} is not supported; use always_on, always_off or \
             traceidratio, or one of them after parentbased_"
        ),
    };
    Ok(if is_parent_based { Sampler::ParentBased(Box::new(root)) } else { root })
}

/// Returns what describes this process in its traces. The variables of the specification win.
pub(super) fn resource() -> Resource {
    let name = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.trim().is_empty());
    let resource = Resource::builder_empty()
        .with_service_name("notary-orders")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match name {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Environment>> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Environment::read(&variables.iter().map(owned).collect())
    }

    const COLLECTOR: (&str, &str) = (OTEL_EXPORTER_OTLP_ENDPOINT, "http://127.0.0.1:4318");

    #[test]
    fn traces_are_off_without_a_collector() {
        for variables in [
            &[][..],
            &[(OTEL_EXPORTER_OTLP_ENDPOINT, " ")],
            &[("OTEL_TRACES_SAMPLER", "nonsense")],
            &[COLLECTOR, ("OTEL_SDK_DISABLED", "TRUE")],
            &[COLLECTOR, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(read(variables).unwrap().is_none(), "{variables:?}");
        }
        let own = (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, "https://collector.example/v1/traces");
        assert!(read(&[own, ("OTEL_SDK_DISABLED", "false")]).unwrap().is_some());
    }

    #[test]
    fn variables_have_the_defaults_of_the_specification() {
        let environment = read(&[COLLECTOR]).unwrap().unwrap();
        assert_eq!(environment.timeout, Duration::from_secs(10));
        assert_eq!(environment.max_queue_size, 2_048);
        let sampler = format!("{:?}", environment.sampler);
        assert_eq!(sampler, "ParentBased(AlwaysOn)");
    }

    #[test]
    fn samplers_have_the_names_of_the_specification() {
        for (name, argument, expected) in [
            ("always_on", "", "AlwaysOn"),
            ("always_off", "", "AlwaysOff"),
            ("traceidratio", "0.25", "TraceIdRatioBased(0.25)"),
            ("parentbased_traceidratio", "0.01", "ParentBased(TraceIdRatioBased(0.01))"),
            ("parentbased_traceidratio", "", "ParentBased(TraceIdRatioBased(1.0))"),
            ("parentbased_always_off", "", "ParentBased(AlwaysOff)"),
        ] {
            let variables =
                [COLLECTOR, ("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)];
            let environment = read(&variables).unwrap().unwrap();
            assert_eq!(format!("{:?}", environment.sampler), expected);
        }
    }

    #[test]
    fn headers_are_a_list() {
        for headers in ["a=1", " a = b=c , d=Basic%20e%3D%3D,", "authorization=Bearer x"] {
            assert!(read(&[COLLECTOR, (OTEL_EXPORTER_OTLP_HEADERS, headers)]).is_ok(), "{headers}");
        }
    }

    #[test]
    fn wrong_variable_is_named() {
        for (name, value) in [
            (OTEL_EXPORTER_OTLP_ENDPOINT, "127.0.0.1:4318"),
            (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, "grpc://127.0.0.1:4317"),
            (OTEL_EXPORTER_OTLP_PROTOCOL, "grpc"),
            (OTEL_EXPORTER_OTLP_COMPRESSION, "gzip"),
            (OTEL_EXPORTER_OTLP_TRACES_COMPRESSION, "zstd"),
            (OTEL_EXPORTER_OTLP_TIMEOUT, "10s"),
            (OTEL_EXPORTER_OTLP_HEADERS, "secret"),
            (OTEL_EXPORTER_OTLP_HEADERS, "authorization: Bearer secret"),
            (OTEL_EXPORTER_OTLP_HEADERS, "a=1,,b=2"),
            (OTEL_EXPORTER_OTLP_TRACES_HEADERS, "not a name=secret"),
            (OTEL_EXPORTER_OTLP_TRACES_HEADERS, "name=secret%0a"),
            (OTEL_EXPORTER_OTLP_TRACES_HEADERS, "name="),
            (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, "3600001"),
            (OTEL_BSP_MAX_QUEUE_SIZE, "0"),
            (OTEL_BSP_MAX_QUEUE_SIZE, "18446744073709551615"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "5s"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ] {
            let error = read(&[COLLECTOR, (name, value)]).map(drop).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: ")), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let ratio = [
            COLLECTOR,
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
        ];
        assert!(read(&ratio).is_err());
    }
}
