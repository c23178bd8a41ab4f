#!/usr/bin/env python3
"""Measures several instances on one PostgreSQL server: orders, statements, log, connections.

    just instances --instances 1,2,4 --connections 64 --seconds 6

Needs PostgreSQL 13 or newer with pg_stat_statements, and wrk. Starts everything on loopback and
removes it. Each client sends the README's order with new file numbers to one instance, the next
after the answer. Mails go to a folder. See docs/scaling.md.
"""

import argparse
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = re.search(r"-d '(\{.*?\})'\n", (ROOT / "README.md").read_text(), re.S)[1]
# Each client has file numbers of its own.
LUA = """
local client, number = "%s", 0
local head, tail = [==[%s]==], [==[%s]==]
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
wrk.headers["Authorization"] = "Bearer %s"
request = function()
    number = number + 1
    return wrk.format(nil, nil, nil, head .. client .. "-" .. number .. tail)
end
"""
TICKS = os.sysconf("SC_CLK_TCK")


class Database:
    """A PostgreSQL server of its own."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.run("initdb", "-D", f"{folder}/pg", "-A", "trust", "-U", "postgres")
        self.run("pg_ctl", "-D", f"{folder}/pg", "-w", "-l", f"{folder}/log", "-o",
                 f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c max_connections=1000 "
                 "-c shared_buffers=512MB -c max_wal_size=8GB "
                 "-c shared_preload_libraries=pg_stat_statements", "start")
        self.pid = int((folder / "pg/postmaster.pid").read_text().split()[0])
        self.sql("CREATE EXTENSION pg_stat_statements")

    def run(self, program, *arguments):
        command = [f"{self.programs}/{program}", *arguments]
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        command = user + command if os.getuid() == 0 else command
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return ran.stdout.strip()

    def sql(self, query):
        return self.run("psql", "-XAtq", "-h", str(self.folder), "-p", str(self.port), "-U",
                        "postgres", "-c", query)

    def cpu(self):
        """Processor seconds of the server and its sessions, ended ones too."""
        children = subprocess.run(["pgrep", "-P", str(self.pid)], stdout=subprocess.PIPE,
                                  text=True).stdout.split()
        ended = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")")[1].split()[13:15]
        return sum(cpu(child) for child in children) + sum(map(int, ended)) / TICKS

    def stop(self):
        self.run("pg_ctl", "-D", f"{self.folder}/pg", "-m", "immediate", "stop")


def cpu(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


class Instance:
    def __init__(self, program, folder, database, connections):
        folder.mkdir()
        self.log = folder / "log"
        url = f"postgres://postgres@127.0.0.1:{database.port}/postgres"
        self.settings = [f"--data-dir={folder}", f"--database-url={url}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [program, *self.settings, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0",
                 f"--database-connections={connections}", "--rate-per-second=0", "--drain-secs=0",
                 "--mails-per-recipient-hour=0", "--log-format=json",
                 f"--mail-url=file://{folder}/mail"], stdout=log, stderr=log)
        self.api = self.ops = None

    def wait(self):
        while self.api is None:
            for line in self.log.read_text().splitlines():
                if '"listening"' in line:
                    event = json.loads(line)
                    self.api, self.ops = event["api"], event["ops"]
            if self.process.poll() is not None:
                raise SystemExit(self.log.read_text())
            time.sleep(0.02)

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.ops}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        lines = [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def measure(arguments, count, folder):
    database = Database(folder, arguments.port)
    instances = []
    try:
        for number in range(count):
            instances.append(Instance(arguments.service, folder / f"i{number}", database,
                                      arguments.database_connections))
            if number % 8 == 0:
                instances[-1].wait()
        for instance in instances:
            instance.wait()
        issue = [arguments.service, "keys", "issue", "--name=load", *instances[0].settings]
        key = subprocess.run(issue, check=True, capture_output=True, text=True).stdout.strip()
        time.sleep(2)
        idle = watch(database, instances, lambda: time.sleep(arguments.seconds))
        head, tail = ORDER.split("REFI-2026-001")
        clients = max(arguments.connections // count, 1)

        def load():
            running = []
            for number, instance in enumerate(instances):
                script = folder / f"{number}.lua"
                script.write_text(LUA % (f"I{number}", head, tail, key))
                running.append(subprocess.Popen(
                    ["wrk", "-t1", f"-c{clients}", f"-d{arguments.seconds}s", "-s", str(script),
                     f"http://{instance.api}/api/order/create"], stdout=subprocess.DEVNULL))
            for wrk in running:
                wrk.wait()

        busy = watch(database, instances, load)
        return rows(count, clients, idle, busy, arguments.seconds)
    finally:
        for instance in instances:
            instance.process.kill()
            instance.process.wait()
        database.stop()


def watch(database, instances, work):
    """Returns what the work cost. Reading the metrics costs statements, so they are read outside."""

    def sums(name):
        return sum(instance.metric(name) for instance in instances)

    def processor():
        return sum(cpu(instance.process.pid) for instance in instances)

    orders = sums("notary_orders_orders_created_total")
    database.sql("SELECT pg_stat_statements_reset()")
    log = database.sql("SELECT pg_current_wal_lsn()")
    database_before, before = database.cpu(), processor()
    work()
    costs = {"database cpu": database.cpu() - database_before, "service cpu": processor() - before}
    statements = database.sql(
        "SELECT sum(calls), sum(calls) FILTER (WHERE query LIKE 'WITH candidates AS%') "
        "FROM pg_stat_statements WHERE query !~ 'pg_(stat|current_wal)'")
    sessions = database.sql("SELECT count(*) FROM pg_stat_activity "
                            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
    written = database.sql(f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{log}')")
    return costs | {
        "statements": [float(one or 0) for one in statements.split("|")],
        "sessions": int(sessions), "log": float(written),
        "orders": sums("notary_orders_orders_created_total") - orders,
        "batch": sums("notary_orders_batch_size_sum")
        / max(sums("notary_orders_batch_size_count"), 1),
    }


def rows(count, clients, idle, busy, seconds):
    """Returns the row of each table."""
    orders = max(busy["orders"], 1)
    return (
        [count, count * clients, f"{busy['orders'] / seconds:,.0f}", f"{busy['batch']:.1f}",
         f"{busy['statements'][1] / orders:.2f}", f"{busy['statements'][0] / orders:.2f}",
         f"{busy['service cpu'] / orders * 1e6:.0f}", f"{busy['database cpu'] / orders * 1e6:.0f}",
         f"{busy['log'] / orders:,.0f}", busy["sessions"]],
        [count, idle["sessions"], f"{idle['statements'][0] / seconds:.0f}",
         f"{idle['service cpu'] / seconds / count * 100:.2f}",
         f"{idle['database cpu'] / seconds * 100:.1f}"])


TABLES = (
    ["instances", "clients", "orders/s", "calls in a commit", "statements that create, per order",
     "all statements per order", "µs of a processor per order: services", "PostgreSQL",
     "bytes of log per order", "sessions"],
    ["idle instances", "sessions", "statements/s", "% of a processor: each instance",
     "PostgreSQL"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--service", default=ROOT / "target/release/notary-orders")
    parser.add_argument("--instances", default="1,2,4")
    parser.add_argument("--connections", type=int, default=64, help="of clients, to all instances")
    parser.add_argument("--database-connections", type=int, default=16, help="of each instance")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--port", type=int, default=61320)
    arguments = parser.parse_args()
    measured = []
    for count in map(int, arguments.instances.split(",")):
        folder = pathlib.Path(tempfile.mkdtemp())
        folder.chmod(0o777)
        try:
            measured.append(measure(arguments, count, folder))
        finally:
            shutil.rmtree(folder)
    for head, *table in zip(TABLES, *measured):
        print()
        for row in [head, ["---"] * len(head), *table]:
            print("|", " | ".join(map(str, row)), "|")


if __name__ == "__main__":
    main()
