#!/usr/bin/env bash
# Fuzzes the named targets, or all, for SECONDS each (60 by default), or with RUNS=N for N runs:
#   scripts/fuzz.sh [SECONDS] [TARGET...]
# Ends with the executions of each target. Saves an input that breaks a property in fuzz/found,
# where the tests find it.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo-fuzz >/dev/null || {
    echo 'cargo-fuzz is missing: cargo install cargo-fuzz' >&2
    exit 1
}
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo fuzz list)

# Our own code has no `unsafe`, so a sanitizer would find nothing and halve the executions. Without
# one, the stable compiler is enough. A broken property, an overflow or a panic stops a target.
RUSTC_WRAPPER=$PWD/fuzz/rustc cargo fuzz build -O -s none --no-cfg-fuzzing

limit=(-max_total_time="$seconds")
[ -z "${RUNS:-}" ] || limit=(-runs="$RUNS")
# Spools forms to memory: a disk would cost most of the executions.
TMPDIR=$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

host=$(rustc -vV | sed -n 's/^host: //p')
# Longer inputs cost executions and reach nothing more, because these targets have few and small
# parts and changes. The last two write their forms and orders themselves, so how often a line runs
# tells the fuzzer little.
declare -A limits=(
    [form]='-max_len=1024'
    [form_parts]='-max_len=384 -use_counters=0'
    [order_fields]='-max_len=128 -use_counters=0'
)

status=0
for target in "${targets[@]}"; do
    mkdir -p "fuzz/grown/$target" "fuzz/found/$target"
    log="$TMPDIR/$target.log"
    dictionary="fuzz/dictionaries/$target"
    options=("${limit[@]}" -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="fuzz/found/$target/")
    read -ra limited <<<"${limits[$target]:-}"
    options+=("${limited[@]}")
    [ ! -f "$dictionary" ] || options+=(-dict="$dictionary")
    "fuzz/target/$host/release/$target" "${options[@]}" "fuzz/grown/$target" "fuzz/corpus/$target" >"$log" 2>&1 || { status=1; tail -n 40 "$log"; }
    rmdir --ignore-fail-on-non-empty "fuzz/found/$target"
    awk -v target="$target" '/^stat::number_of_executed_units/ { runs = $2 } /^stat::average_exec_per_sec/ { rate = $2 }
        END { printf "%-16s %12d executions, %7d per second\n", target, runs, rate }' "$log"
done
exit "$status"
