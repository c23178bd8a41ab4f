//! The log and the spans of a request: without traces, with none of them sampled, with 1 % sampled.
//!
//! Each way runs in processes of its own, one after the other, because a process has one log.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot continue has failed; counts are far below 2^53"
)]

use std::{
    env,
    io::{Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
    thread,
};

use actix_web::http::{Method, StatusCode, header::HeaderMap};
use adapter_http::{STEPS, TraceRequests as _, TracedAnswer};
use app::{logging, settings::Settings, traces::Traces};
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use tracing::{error_span, info, info_span};

const REQUESTS: u32 = 200_000;
const ROUNDS: usize = 9;
/// Names the way in the environment of a process that measures.
const WAY: &str = "TRACES_BENCH";
/// A name, and the share of requests that are sampled.
const WAYS: [(&str, Option<&str>); 3] =
    [("without traces", None), ("none sampled", Some("0")), ("1 % sampled", Some("0.01"))];

fn main() {
    if env::var_os(WAY).is_some() {
        return measure();
    }
    let collector = collector();
    let mut times = [const { Vec::new() }; WAYS.len()];
    for _ in 0..ROUNDS {
        for (times, (_, share)) in times.iter_mut().zip(WAYS) {
            times.push(run(&collector, share));
        }
    }
    for (times, (name, _)) in times.iter_mut().zip(WAYS) {
        times.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| times[at]);
        println!("{name}: {median:.0} ns of CPU a request ({least:.0} to {most:.0})");
    }
}

/// Answers every export, and returns its URL.
fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            thread::spawn(move || {
                let mut connection = connection.unwrap();
                let mut bytes = vec![0; 65_536];
                while connection.read(&mut bytes).is_ok_and(|read| read > 0) {
                    let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
    });
    url
}

/// Returns the nanoseconds of CPU time of a request.
fn run(collector: &str, share: Option<&str>) -> f64 {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(WAY, "1").stderr(Stdio::null());
    if let Some(share) = share {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
            .env("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
            .env("OTEL_TRACES_SAMPLER_ARG", share);
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().parse().unwrap()
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

/// Prints the nanoseconds of CPU time of a request: its span, its steps and its log line.
fn measure() {
    let settings = Flags::parse_from(["bench", "--log-format=json"]).settings;
    let traces = Traces::start(&env::vars().collect()).unwrap();
    let log = logging::start(&settings, traces.as_deref()).unwrap();
    for _ in 0..REQUESTS / 10 {
        request(traces.as_deref());
    }
    let begin = cpu_time();
    for _ in 0..REQUESTS {
        request(traces.as_deref());
    }
    println!("{}", (cpu_time() - begin) * 1e9 / f64::from(REQUESTS));
    drop(log);
}

fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The log leaves out what begins like the target of steps, as the name of this program does.
const TARGET: &str = "adapter_http::observe";

fn request(traces: Option<&Traces>) {
    let id = "d5d77a05-52c8-403a-ad3b-12d04e91fbce";
    let trace = traces.map(|traces| traces.begin(id, &Method::POST, &HeaderMap::new()));
    let is_exported = trace.as_ref().is_some_and(|trace| trace.is_exported);
    let span = trace.map_or_else(
        || error_span!(target: TARGET, "request", request_id = id),
        |trace| trace.span,
    );
    span.in_scope(|| {
        info_span!(target: STEPS, "authenticate").in_scope(|| ());
        info_span!(target: STEPS, "read").in_scope(|| ());
        let (method, status, milliseconds) = ("POST", 201, 5.25);
        info!(target: TARGET, method, route = "/api/order/create", status, milliseconds, "order created");
    });
    if let Some(traces) = traces.filter(|_| is_exported) {
        let (method, route, status) = ("POST", "/api/order/create", StatusCode::CREATED);
        traces.answered(&span, &TracedAnswer { method, route, status, problem: None });
    }
}
