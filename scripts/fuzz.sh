#!/usr/bin/env bash
# Fuzzes each target, or those that are named, for so many seconds (60), or with RUNS=N for so many executions:
#   scripts/fuzz.sh [SECONDS] [TARGET...]
# Ends with the executions of each. An input that breaks a property is saved in fuzz/found, where the tests try it from then on.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo-fuzz >/dev/null || { echo 'cargo-fuzz is missing: cargo install cargo-fuzz' >&2; exit 1; }
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo fuzz list)

# No code of our own is unsafe, so a sanitizer would see nothing and cost half of the executions; and without one, the stable
# compiler will do. The properties, overflow and a panic are what stops a target.
cargo fuzz build -O -s none --no-cfg-fuzzing

limit=(-max_total_time="$seconds")
[ -z "${RUNS:-}" ] || limit=(-runs="$RUNS")
# Forms are spooled to memory: a disk would cost most of the executions.
TMPDIR=$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

host=$(rustc -vV | sed -n 's/^host: //p')
status=0
for target in "${targets[@]}"; do
    mkdir -p "fuzz/grown/$target" "fuzz/found/$target"
    log="$TMPDIR/$target.log"
    dictionary="fuzz/dictionaries/$target"
    options=("${limit[@]}" -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="fuzz/found/$target/")
    [ ! -f "$dictionary" ] || options+=(-dict="$dictionary")
    "fuzz/target/$host/release/$target" "${options[@]}" "fuzz/grown/$target" "fuzz/corpus/$target" >"$log" 2>&1 || { status=1; tail -n 40 "$log"; }
    rmdir --ignore-fail-on-non-empty "fuzz/found/$target"
    awk -v target="$target" '/^stat::number_of_executed_units/ { runs = $2 } /^stat::average_exec_per_sec/ { rate = $2 }
        END { printf "%-16s %12d executions, %7d per second\n", target, runs, rate }' "$log"
done
exit "$status"
