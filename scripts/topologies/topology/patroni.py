"""A PostgreSQL cluster under Patroni: three nodes, each a network namespace with an etcd, a Patroni
and a PostgreSQL."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from .processes import Machine, Process, kill_tree, wait_until

PASSWORD = "s3cr3t-passw0rd"
# The side of the service in the network of the nodes.
GATEWAY = "10.99.0.1"


def programs() -> Path:
    """Returns the folder of the newest PostgreSQL."""
    folders = Path("/usr/lib/postgresql").glob("*/bin")
    return max(folders, key=lambda folder: float(folder.parent.name))


@dataclass(frozen=True)
class Timings:
    """Settings of Patroni. The times are its defaults."""

    ttl: int = 30
    loop_wait: int = 10
    retry_timeout: int = 10
    # Seconds in which a crashed leader may start again before a standby is promoted. Patroni's
    # default is 300. The synchronous standby has every commit, so waiting gains nothing.
    primary_start_timeout: int = 0


class Node:
    """A node of the cluster."""

    def __init__(self, machine: Machine, number: int, patroni: list[object],
                 timings: Timings) -> None:
        self._patroni_command = patroni
        self.machine, self.name, self.address = machine, f"node{number}", f"10.99.0.{10 + number}"
        self._link, self._number = f"link{number}", number
        self.folder = machine.make_folder(self.name, "postgres")
        self.data = self.folder / "data"
        self.etcd: Process | None = None
        self.patroni: Process | None = None
        self._connect_network()
        self._store_etcd_in_memory()
        self.config = self.folder / "patroni.json"
        self.config.write_text(json.dumps(self._settings(timings)))
        subprocess.run(["chown", "postgres:", str(self.config)], check=True)

    def _connect_network(self) -> None:
        def ip(*words: str) -> None:
            self.machine.run("ip", *words)

        ip("netns", "add", self.name)
        ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", self._link, "master", "nodes", "up")
        ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    def _store_etcd_in_memory(self) -> None:
        """In production etcd has a fast disk of its own. Here it would wait for the databases."""
        folder = self.folder / "etcd"
        folder.mkdir()
        self.machine.run("mount", "-t", "tmpfs", "tmpfs", folder)
        subprocess.run(["chown", "postgres:", str(folder)], check=True)
        folder.chmod(0o700)

    def _settings(self, timings: Timings) -> dict:
        return {
            "scope": "orders",
            "name": self.name,
            "restapi": {
                "listen": f"{self.address}:8008", "connect_address": f"{self.address}:8008"},
            "etcd3": {"hosts": [f"10.99.0.{10 + number}:2379" for number in (1, 2, 3)]},
            "bootstrap": {
                "dcs": {
                    **vars(timings),
                    # A commit returns when the standby that would be promoted has it too.
                    "synchronous_mode": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "remove_data_directory_on_rewind_failure": True,
                        "remove_data_directory_on_diverged_timelines": True,
                        "parameters": {"max_connections": 100, "shared_buffers": "64MB"},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
            },
            "postgresql": {
                "listen": f"{self.address}:5432",
                "connect_address": f"{self.address}:5432",
                "data_dir": str(self.data),
                "bin_dir": str(programs()),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {
                    role: {"username": role, "password": PASSWORD}
                    for role in ("superuser", "replication", "rewind")},
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": [
                    "local all all trust",
                    "host all all 10.99.0.0/24 scram-sha-256",
                    "host replication all 10.99.0.0/24 scram-sha-256"],
            },
        }

    def start_etcd(self) -> None:
        members = ",".join(
            f"node{number}=http://10.99.0.{10 + number}:2380" for number in (1, 2, 3))
        own = f"http://{self.address}"
        self.etcd = self.machine.start(
            f"{self.name}-etcd", "etcd", "--name", self.name,
            "--data-dir", self.folder / "etcd/data",
            "--listen-peer-urls", f"{own}:2380", "--initial-advertise-peer-urls", f"{own}:2380",
            "--listen-client-urls", f"{own}:2379", "--advertise-client-urls", f"{own}:2379",
            "--initial-cluster", members, "--log-level", "warn",
            user="postgres", namespace=self.name)

    def start_patroni(self) -> None:
        self.patroni = self.machine.start(
            f"{self.name}-patroni", *self._patroni_command, self.config,
            user="postgres", namespace=self.name,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.folder)})

    def kill_postgres(self) -> None:
        """Kills the server of this node. Patroni notices."""
        kill_tree(int((self.data / "postmaster.pid").read_text().split()[0]))

    def kill(self) -> None:
        """Kills everything at once, as the loss of the machine would."""
        for process in (self.patroni, self.etcd):
            process.signal(signal.SIGKILL)
        self.kill_postgres()
        for process in (self.patroni, self.etcd):
            process.kill()

    def start(self) -> None:
        self.start_etcd()
        self.start_patroni()

    def disconnect(self) -> None:
        """Cuts the node off from all others: packets get lost, and no connection is closed."""
        self.machine.run("ip", "link", "set", self._link, "down")

    def connect(self) -> None:
        self.machine.run("ip", "link", "set", self._link, "up")


class Cluster:
    """The three nodes."""

    def __init__(self, machine: Machine, folder: Path | None, timings: Timings) -> None:
        """Starts the nodes with the Patroni of a virtual environment, or else the one of Debian."""
        self.machine, command = machine, ["patroni"]
        self._patronictl: list[object] = ["patronictl"]
        if folder:
            # The user `postgres` may not reach the environment where it is.
            reachable = machine.make_folder("patroni")
            machine.run("mount", "--bind", folder, reachable)
            command = [reachable / "bin/python", "-m", "patroni"]
            self._patronictl = [folder / "bin/patronictl"]
        for words in (["add", "nodes", "type", "bridge"], ["set", "nodes", "up"]):
            machine.run("ip", "link", *words)
        machine.run("ip", "address", "add", f"{GATEWAY}/24", "dev", "nodes")
        self.nodes = [Node(machine, number, command, timings) for number in (1, 2, 3)]
        for node in self.nodes:
            node.start_etcd()
        wait_until("etcd has a leader",
                   lambda: b'"true"' in _get(f"http://{self.nodes[0].address}:2379/health"))
        self.nodes[0].start_patroni()
        wait_until("the first node leads", self.leader)
        for node in self.nodes[1:]:
            node.start_patroni()
        self.wait_healthy()

    def leader(self) -> Node | None:
        """Returns the node that holds the leader's key by its own word."""
        return next((node for node in self.nodes if _status(node, "/primary") == 200), None)

    def is_healthy(self) -> bool:
        """Returns whether all nodes work and a synchronous standby can take over."""
        leader = self.leader()
        if leader is None:
            return False
        members = json.loads(_get(f"http://{leader.address}:8008/cluster"))["members"]
        roles = sorted(member["role"] for member in members
                       if member["state"] in ("running", "streaming") and not member.get("lag"))
        return roles == ["leader", "replica", "sync_standby"]

    def wait_healthy(self) -> None:
        wait_until("the cluster has a leader and two standbys", self.is_healthy, 120)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs a statement on the leader as the superuser."""
        url = f"postgres://superuser:{PASSWORD}@{self.leader().address}:5432/{database}"
        return self.machine.run("psql", "-XAtqc", statement, url)

    def switch_over(self) -> None:
        """Makes the synchronous standby the leader, in order."""
        leader = self.leader()
        done = self.machine.run(
            *self._patronictl, "-c", leader.config, "switchover", "orders",
            "--primary", leader.name, "--force",
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
        if "Successfully switched over" not in done:
            raise RuntimeError(f"no switchover: {done}")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=2) as answer:
        return answer.read()


def _status(node: Node, path: str) -> int:
    try:
        _get(f"http://{node.address}:8008{path}")
        return 200
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
