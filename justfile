# Shortcuts; each is one command that works without just.

# Lists the recipes.
default:
    @just --list

# Starts the service on the embedded default.
run *arguments:
    cargo run --release -- {{arguments}}

# Everything that continuous integration runs.
test:
    ./scripts/test.sh

# Formats and lints.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# Builds and opens the documentation of the code.
doc:
    cargo doc --workspace --no-deps --open

# Renews the copy of the OpenAPI document in docs/.
openapi:
    cargo run --quiet --package notary-orders -- openapi --base-path '' > docs/openapi.json

# Puts the clients of docs/examples into the API guide.
renew-guide:
    RENEW_GUIDE=1 cargo test --package notary-orders --test e2e guide_shows_the_example_clients_verbatim

# Keeps the OpenAPI document of this version as a released one, which later ones must not break.
release-openapi:
    cargo run --quiet -- openapi >"docs/released/openapi-$(cargo pkgid --package notary-orders | sed 's/.*@//').json"

# Measures the release build: orders, overload, uploads, memory, idempotency-key, slow-clients, growth, all (see bench/README.md); or micro.
bench what="all" *arguments:
    {{ if what == "micro" { "cargo bench --package notary-orders-bench" } else { "cargo build --release && cargo run --release --package notary-orders-bench -- " + what } }} {{arguments}}

# Kills the service over and over under load, on both wirings; CRASH_SEED=N repeats the moments of a run.
crash rounds="300":
    CRASH_ROUNDS={{rounds}} cargo test --package notary-orders --test e2e --test e2e-production crash:: -- --nocapture

# Stops the service over and over under full load, on both wirings.
stops count="50":
    STOPS={{count}} cargo test --package notary-orders --test e2e --test e2e-production stop_under_load:: -- --nocapture

# Mixed load for so many minutes on each wiring; draws memory, file descriptors, threads and queue age to target/soak-*.svg.
soak minutes="30" *arguments:
    cargo build --release && cargo run --release --package notary-orders-bench -- soak {{minutes}} {{arguments}}

# Checks licences, sources, advisories and unused dependencies (needs cargo-deny and cargo-machete).
supply-chain:
    cargo deny check
    cargo machete

# Writes what the binary is made of to target/notary-orders.cdx.json (needs cargo-cyclonedx).
sbom:
    ./scripts/sbom.sh

# Changes the code and looks whether a test notices (needs cargo-mutants).
mutants package="notary-orders-domain" *arguments:
    cargo mutants --package {{package}} {{arguments}}

# Fuzzes each target, or those that are named, for so many seconds (needs cargo-fuzz; see docs/fuzzing.md).
fuzz seconds="60" *targets:
    ./scripts/fuzz.sh {{seconds}} {{targets}}

# Sends random bytes over so many connections to the service, on both wirings.
random-bytes connections="100000" seed="6":
    RANDOM_CONNECTIONS={{connections}} RANDOM_SEED={{seed}} cargo test --package notary-orders --test e2e --test e2e-production random_bytes

# Mutates the form reader and looks whether a test of its crate fails each time (needs cargo-mutants).
mutants-form *arguments:
    cargo mutants --package notary-orders-adapter-http --file 'crates/adapter-http/src/{form,part_lengths,spool,body}.rs' {{arguments}} -- --lib

# Builds the Debian package into target/debian (needs cargo-deb).
deb:
    cargo deb --package notary-orders --locked

# Tries the Debian package, which is built if none is named, on a machine of its own (needs root).
try-package *packages:
    ./scripts/try-package.sh {{packages}}
