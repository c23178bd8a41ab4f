# Shortcuts. Each is one command that also works without just.

# Lists the recipes.
default:
    @just --list

# Starts the service on the embedded default.
run *arguments:
    cargo run --release -- {{arguments}}

# Runs everything that continuous integration runs.
test:
    ./scripts/test.sh

# Runs the tests that take too long for each change.
nightly:
    ./scripts/nightly.sh

# Checks format and lints, and runs the unit and contract tests on the embedded adapters.
check:
    ./scripts/check.sh

# Formats and lints.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# Builds and opens the documentation of the code.
doc:
    cargo doc --workspace --no-deps --open

# Makes the Postman collection from the OpenAPI document.
openapi:
    scripts/postman_collection.py docs/openapi.json >docs/notary-orders.postman_collection.json

# Stores what later versions must keep of this one: its OpenAPI document, and checksums of its migrations.
released:
    #!/usr/bin/env bash
    set -euo pipefail
    version=$(cargo pkgid --package notary-orders | sed 's/.*@//')
    cargo run --quiet -- openapi >"docs/released/openapi-$version.json"
    find migrations -name '*.sql' | sort | xargs sha256sum >"docs/released/migrations-$version.sha256"

# Stores a small database of this version, which later versions are tested on (see the script).
store-fixture folder database_url="":
    cargo build --release
    scripts/release/store_fixture.py target/release/notary-orders {{folder}} {{database_url}}

# Measures the release build beside pgbench, nginx and a Fastify service (see bench/README.md).
bench what="all" *arguments:
    cargo build --release
    bench/bench.py {{what}} {{arguments}}

# Measures what stored accesses cost a read on SQLite, beside a build of this commit that stores none.
bench-accesses *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    built=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
    tree=$built/without-accesses
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive HEAD | tar -x -C "$tree"
    patch --directory "$tree" --strip 1 <bench/without-accesses.patch
    cargo build --release --manifest-path "$tree/Cargo.toml" --target-dir "$built"
    mv "$built/release/notary-orders" "$tree/notary-orders"
    cargo build --release
    bench/bench.py accesses --without "$tree/notary-orders" {{arguments}}

# Kills the service again and again under load, on both wirings. CRASH_SEED=N repeats a run.
crash rounds="300":
    CRASH_ROUNDS={{rounds}} cargo test --package notary-orders --test e2e \
        crash:: -- --nocapture

# Changes orders by SQL while services run, on both wirings, and counts history and events.
changes-by-sql count="1000":
    SQL_CHANGES={{count}} cargo test --package notary-orders --test e2e \
        changes::each_change_by_sql

# Stops the service again and again under full load.
stops count="50":
    STOPS={{count}} cargo test --package notary-orders --test e2e \
        stop_under_load:: -- --nocapture

# Draws the panels of the Grafana dashboard to docs/images/dashboard.png (needs prometheus).
dashboard *arguments:
    cargo build --release
    python3 -m venv target/dashboard
    target/dashboard/bin/pip install --quiet --requirement scripts/dashboard-requirements.txt
    target/dashboard/bin/python scripts/draw_dashboard.py {{arguments}}

# Renews the pictures of the console and of the API's page in docs/images (needs Chrome or Chromium).
pictures:
    cargo test --package notary-orders --test e2e -- \
        every_view_passes_axe_at_every_width docs_page_creates_orders
    for it in docs/images/console*.png docs/images/docs-page.png; do \
        cp "target/screenshots/$(basename "$it")" "$it"; done

# Breaks real servers around the service: the named topologies, or all (needs root or sudo).
topologies *names:
    ./scripts/topologies.sh {{names}}

# Checks licences, sources, advisories and unused dependencies (needs cargo-deny and cargo-machete).
supply-chain:
    cargo deny check
    cargo machete

# Writes the bill of materials to target/notary-orders.cdx.json (needs cargo-cyclonedx).
sbom:
    ./scripts/sbom.sh

# Changes a crate's code and checks that a test fails each time (needs cargo-mutants).
mutants package="notary-orders-domain" *arguments:
    cargo mutants --package {{package}} {{arguments}}

# Fuzzes the named targets, or all, for SECONDS each (needs cargo-fuzz; see docs/fuzzing.md).
fuzz seconds="60" *targets:
    ./scripts/fuzz.sh {{seconds}} {{targets}}

# Sends random bytes to the service over many connections, on both wirings.
random-bytes connections="100000" seed="6":
    RANDOM_CONNECTIONS={{connections}} RANDOM_SEED={{seed}} \
        cargo test --package notary-orders --test e2e many_random_bytes -- --ignored

# Builds the Debian package into target/debian (needs cargo-deb).
deb:
    ./scripts/deb.sh

# Compiles the static programs and packs them into target/packages (see docs/releases.md).
static *architectures:
    ./scripts/release/static.sh {{architectures}}

# Tests the Debian package in a container; builds it if none is named (needs root).
try-package *packages:
    ./scripts/try-package.sh {{packages}}
