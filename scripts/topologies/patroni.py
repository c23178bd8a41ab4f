#!/usr/bin/env python3
"""Breaks a PostgreSQL cluster under Patroni while two instances of the service create orders.

Three nodes, each with etcd, Patroni and PostgreSQL in a network namespace of its own, replicate
synchronously. HAProxy chooses the leader. One instance connects through HAProxy, the other through
PgBouncer in the mode `session` and HAProxy. The mode `transaction` must be rejected at the start.
"""

import subprocess
import threading
import time
from pathlib import Path

from topology import Audit, Load, Service, accepts, mail_drop, parse_positive, run, venv, wait_until
from topology.patroni import PASSWORD, Cluster, Timings

# A killed leader is replaced within this time if its Patroni is alive, or if it is switched over.
REPLACED = 15.0
# What follows the end of the leader's key: promotion, health checks, new connections.
TAKEOVER = 10.0
FAULTS = ("postgres killed", "node killed", "node partitioned", "switchover")

HAPROXY = """
global
    maxconn 1000
defaults
    mode tcp
    timeout connect 1s
    timeout client 1h
    timeout server 1h
    timeout check 2s
listen orders
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""

PGBOUNCER = """
[databases]
orders = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {mode}
default_pool_size = 40
max_client_conn = 200
{retry}
"""


class Probe:
    """Commits through HAProxy without the service: tells the time that the cluster takes."""

    def __init__(self, url: str) -> None:
        self._url, self._times, self._stopped = url, [time.monotonic()], threading.Event()
        self._thread = threading.Thread(target=self._commit, daemon=True)
        self._thread.start()

    def _commit(self) -> None:
        while not self._stopped.wait(0.2):
            command = ["timeout", "2", "psql", "-XAtqc", "UPDATE probe SET commits = commits + 1"]
            if subprocess.run([*command, self._url], capture_output=True).returncode == 0:
                self._times.append(time.monotonic())

    def longest_gap(self) -> float:
        """Stops, and returns the longest time without a commit."""
        self._stopped.set()
        self._thread.join()
        return max(later - earlier for earlier, later in zip(self._times, self._times[1:]))


def start_haproxy(machine, cluster) -> int:
    port = machine.free_port()
    servers = "\n".join(f"    server {node.name} {node.address}:5432 check port 8008"
                        for node in cluster.nodes)
    config = machine.folder / "haproxy.cfg"
    config.write_text(HAPROXY.format(port=port, servers=servers))
    haproxy = machine.start("haproxy", "haproxy", "-db", "-f", config, ready=lambda: accepts(port))
    # Until its first checks HAProxy uses the standbys too.
    wait_until("HAProxy knows the leader", lambda: haproxy.log.read_text().count(" is DOWN") == 2)
    return port


def start_pgbouncer(machine, mode: str, server: int, retry: str) -> int:
    port, folder = machine.free_port(), machine.make_folder(f"pgbouncer-{mode}")
    # Only so that PgBouncer, which does not run as root, can read it.
    folder.chmod(0o755)
    (folder / "users").write_text(f'"orders" "{PASSWORD}"\n')
    config = folder / "pgbouncer.ini"
    config.write_text(PGBOUNCER.format(
        port=port, server=server, mode=mode, users=folder / "users", retry=retry))
    machine.start(f"pgbouncer-{mode}", "pgbouncer", config, user="postgres",
                  ready=lambda: accepts(port))
    return port


def break_and_mend(fault: str, cluster, load, probe_url: str) -> tuple[float, dict[str, float]]:
    """Breaks the leader until orders are acknowledged again. Returns the longest times without a
    commit, and without an acknowledged order of each instance."""
    cluster.wait_healthy()
    load.wait_for(50)
    leader, probe, begin = cluster.leader(), Probe(probe_url), time.monotonic()
    if fault == "postgres killed":
        leader.kill_postgres()
    elif fault == "node killed":
        leader.kill()
    elif fault == "node partitioned":
        leader.disconnect()
    else:
        cluster.switch_over()
    # Answers to requests in progress may still arrive.
    since = begin + 1.0
    wait_until("each instance acknowledges orders again",
               lambda: all(load.count(since, url) > 30 for url in load.urls), 120)
    time.sleep(2)
    gaps = {url: load.longest_gap(begin, url=url) for url in load.urls}
    committed = probe.longest_gap()
    if fault == "node killed":
        leader.start()
    elif fault == "node partitioned":
        leader.connect()
    return committed, gaps


def start_services(machine, cluster, retry: str, figures) -> tuple[dict[str, Service], str]:
    """Starts an instance behind HAProxy and one behind PgBouncer. Returns them with the URL of the
    database at HAProxy."""
    cluster.sql(f"CREATE ROLE orders LOGIN PASSWORD '{PASSWORD}'")
    cluster.sql("CREATE DATABASE orders OWNER orders")
    haproxy = start_haproxy(machine, cluster)
    documents = machine.make_folder("documents")

    def instance(name: str, port: int) -> Service:
        return Service(machine, name, {
            "DATABASE_URL": f"postgres://orders:{PASSWORD}@127.0.0.1:{port}/orders",
            "NOTARY_ORDERS_DOCUMENTS_URL": f"file://{documents}",
            "NOTARY_ORDERS_LOG_LEVEL": "warn"})

    services = {
        "HAProxy": instance("haproxy-service", haproxy),
        "PgBouncer": instance(
            "pgbouncer-service", start_pgbouncer(machine, "session", haproxy, retry))}
    for service in services.values():
        service.start()
    pooled = instance("transaction", start_pgbouncer(machine, "transaction", haproxy, retry))
    rejected = pooled.start(ready=False).process
    status = rejected.wait(30)
    figures.check("PgBouncer in the mode transaction is rejected at the start",
                  status != 0 and "pool_mode" in rejected.tail(), rejected.tail())
    return services, services["HAProxy"].environment["DATABASE_URL"]


def main(machine, arguments, figures) -> None:
    timings = Timings(arguments.ttl, arguments.loop_wait, arguments.retry_timeout,
                      arguments.primary_start_timeout)
    cluster = Cluster(machine, None if arguments.debian else machine.prepared, timings)
    retry = "" if arguments.pgbouncer_defaults else "server_login_retry = 1"
    services, database = start_services(machine, cluster, retry, figures)
    machine.run("psql", "-Xqc", "CREATE TABLE probe AS SELECT 0 AS commits", database)
    key = services["HAProxy"].issue_key()

    load = Load([service.url for service in services.values()], key, clients=8, pause=0.2).start()
    faults = arguments.fault or FAULTS
    times: dict[str, list[dict[str, float]]] = {fault: [] for fault in faults}
    for number in range(arguments.rounds):
        fault = faults[number % len(faults)]
        committed, gaps = break_and_mend(fault, cluster, load, database)
        times[fault].append({"commits by HAProxy": committed} | {
            f"orders by {name}": gaps[service.url] for name, service in services.items()})
        shown = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times[fault][-1].items())
        print(f"round {number + 1}, {fault}: longest time without {shown}", flush=True)
    cluster.wait_healthy()
    load.stop()

    limits = {
        "postgres killed": REPLACED, "switchover": REPLACED,
        "node killed": timings.ttl + TAKEOVER, "node partitioned": timings.ttl + TAKEOVER}
    figures.add("rounds", arguments.rounds)
    for fault, rounds in times.items():
        for name in rounds[0] if rounds else ():
            seconds = sorted(gaps[name] for gaps in rounds)
            figures.add(f"{fault}: longest time without {name}", seconds[-1],
                        f"s (median {seconds[len(seconds) // 2]:.1f})",
                        at_most=limits[fault] if name.startswith("orders") else None)
    figures.add_load(load)
    figures.add_audit(Audit.of(load, mail_drop(*(
        service.mail_folder() for service in services.values()))))


def options(parser) -> None:
    defaults = Timings()
    parser.add_argument("--rounds", type=parse_positive, default=8, help="number of faults")
    parser.add_argument("--fault", choices=FAULTS, action="append", help="only these faults")
    for name, value in vars(defaults).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value,
                            help="setting of Patroni")
    parser.add_argument("--debian", action="store_true",
                        help="run Patroni of the installed package instead of the one from PyPI")
    parser.add_argument("--pgbouncer-defaults", action="store_true",
                        help="leave server_login_retry at 15 s")


if __name__ == "__main__":
    run(main, __doc__.splitlines()[0], options=options,
        prepare=lambda: venv(Path(__file__).with_suffix(".txt")),
        packages={"/usr/lib/postgresql/*/bin/initdb": "postgresql", "etcd": "etcd-server",
                  "haproxy": "haproxy", "pgbouncer": "pgbouncer"})
