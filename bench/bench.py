#!/usr/bin/env python3
"""Measures the release build beside pgbench, nginx and a Fastify service. See README.md."""

import argparse
import pathlib
import signal
import subprocess
import sys

from machine import TARGET, folder
from measurements import ALL, Bench
from rows import table
from servers import Postgres


def described(program):
    """Returns a line about the machine and the build."""
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    cpus = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text()
            .splitlines() if line.startswith("model name")]
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) >> 20
    return f"{version.stdout.splitlines()[0]}; {len(cpus)} × {cpus[0]}, {memory} GiB of memory"


def end(*_):
    """Ends the script as an error does: the servers stop and the folders go. Once is enough."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["all"], choices=["all", *ALL])
    parser.add_argument("--binary", type=pathlib.Path, default=TARGET / "release/notary-orders")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of a round")
    parser.add_argument("--warmup", type=int, default=6, help="seconds before a round")
    parser.add_argument("--slow-documents", type=int, default=20, help="of each slow upload")
    parser.add_argument("--minute", type=int, default=60, help="seconds on one core")
    parser.add_argument("--without", type=pathlib.Path,
                        help="build that stores no accesses (just bench-accesses makes it)")
    arguments = parser.parse_args()
    chosen = list(ALL) if "all" in arguments.what else arguments.what
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)

    rows = []
    with folder() as place:
        postgres = Postgres(place)
        try:
            bench = Bench(arguments.binary.resolve(), postgres, arguments.rounds,
                          arguments.seconds, arguments.warmup, arguments.slow_documents,
                          arguments.minute,
                          arguments.without and arguments.without.resolve())
            for name in chosen:
                bench.say(f"== {name}: {ALL[name].__doc__}")
                rows += ALL[name](bench)
        finally:
            postgres.process.stop()
            if rows:
                print(f"\n{described(arguments.binary)}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
