"""nginx, HAProxy and Envoy with the configurations of `packaging/proxies`."""

import os
import signal
import subprocess
from pathlib import Path

from .processes import Machine, Process, accepts
from .run import ROOT
from .service import Service

PORT = 443
# The instances of the configurations. Their network becomes one of loopback.
INSTANCES = ("127.0.0.11", "127.0.0.12")


class Instance(Service):
    """An instance with the address and the ports of the configurations."""

    def __init__(self, machine: Machine, name: str, address: str,
                 environment: dict[str, str]) -> None:
        super().__init__(machine, name, environment, host=address)
        self.port, self.url = 8080, f"http://{address}:8080"
        self.ops_url = f"http://{address}:8081"
        self.environment |= {"NOTARY_ORDERS_LISTEN": f"{address}:8080",
                             "NOTARY_ORDERS_OPS_LISTEN": f"{address}:8081"}


class Proxy:
    """A proxy in front of both instances."""

    def __init__(self, machine: Machine, name: str, command: list[object], reuse: tuple[str, str],
                 config: str) -> None:
        self.machine, self.name, self._command, self._reuse = machine, name, command, reuse
        self._source = (ROOT / "packaging/proxies" / config).read_text()
        self._config = machine.folder / config
        self._epoch = 0
        self._replaced: list[Process] = []
        self.process: Process | None = None

    def start(self, reuse: bool = False) -> None:
        """Starts the proxy. With `reuse` it sends several requests over a connection to an
        instance, which the configuration avoids."""
        text = self._source
        if reuse:
            old, new = self._reuse
            assert text.count(old) == 1, f"{self.name}: {old}"
            text = text.replace(old, new)
        for old, new in (("10.0.0.", "127.0.0."), ("/etc/ssl/orders", str(self.machine.folder)),
                         ("/var/log/nginx", str(self.machine.folder))):
            text = text.replace(old, new)
        self._config.write_text(text)
        self._epoch = 0
        self._run()

    def _run(self) -> None:
        words = [str(word).format(config=self._config, folder=self.machine.folder, epoch=self._epoch)
                 for word in self._command]
        self.process = self.machine.start(self.name, *words, ready=lambda: accepts(PORT))

    def reload(self) -> None:
        """Reads the configuration again, as an operator would."""
        if self.name == "envoy":
            # Envoy has no reload: a new process takes over the listeners of the old one, which
            # answers its last requests.
            self._epoch += 1
            self._replaced.append(self.process)
            self._run()
        else:
            os.kill(self.process.pid, signal.SIGHUP if self.name == "nginx" else signal.SIGUSR2)

    def kill(self) -> None:
        for process in [*self._replaced, self.process]:
            process.kill()
        self._replaced.clear()

    def stop(self) -> None:
        self.process.stop()


def certificate(machine: Machine) -> Path:
    """Makes the certificate and the key of the configurations, for 127.0.0.1."""
    both, key = machine.folder / "orders.pem", machine.folder / "key.pem"
    machine.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-noenc", "-days", "2", "-subj", "/CN=orders", "-addext",
                "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", both)
    both.write_text(both.read_text() + key.read_text())
    return both


def proxies(machine: Machine, envoy: Path) -> list[Proxy]:
    return [
        Proxy(machine, "nginx", ["nginx", "-c", "{config}", "-e", "{folder}/error.log", "-g",
                                 "daemon off; pid {folder}/nginx.pid;"],
              ("upstream orders {", "upstream orders { keepalive 16;"), "nginx.conf"),
        Proxy(machine, "haproxy", ["haproxy", "-W", "-db", "-f", "{config}"],
              ("option http-server-close", "http-reuse always"), "haproxy.cfg"),
        Proxy(machine, "envoy", [envoy, "-c", "{config}", "--concurrency", "2", "-l", "warn",
                                 "--restart-epoch", "{epoch}", "--drain-time-s", "5",
                                 "--parent-shutdown-time-s", "10"],
              ("max_requests_per_connection: 1", "max_requests_per_connection: 0"), "envoy.yaml"),
    ]


def start_postgres(machine: Machine) -> str:
    """Starts a PostgreSQL server, and returns the URL of its database."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"),
                   key=lambda folder: float(folder.parent.name))
    data, port = machine.make_folder("postgres", "postgres"), machine.free_port()
    machine.run(programs / "initdb", "-D", data, "-A", "trust", "-U", "orders", user="postgres")
    machine.start("postgresql", programs / "postgres", "-D", data, "-p", port, "-h", "127.0.0.1",
                  "-k", data, user="postgres", ready=lambda: _answers(programs, port))
    return f"postgres://orders@127.0.0.1:{port}/postgres"


def _answers(programs: Path, port: int) -> bool:
    command = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    return subprocess.run(command).returncode == 0
