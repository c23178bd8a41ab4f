"""An instance of the service."""

import os
import urllib.error
import urllib.request
from pathlib import Path

from .processes import Machine, Process, wait_until


class Service:
    """An instance of the service with a data directory of its own.

    The environment has its settings, such as `DATABASE_URL`. Limits that a load test would reach are
    off, and the duplicate window is long: an order that a repeat creates twice is then found.
    """

    def __init__(self, machine: Machine, name: str, environment: dict[str, str] | None = None,
                 host: str = "127.0.0.1") -> None:
        self.machine, self.name = machine, name
        self.binary = os.environ["NOTARY_ORDERS_BINARY"]
        self.port, self.ops_port = machine.free_port(), machine.free_port()
        self.data = machine.make_folder(f"{name}-data")
        self.environment = {
            "PATH": os.environ["PATH"],
            "NOTARY_ORDERS_LISTEN": f"{host}:{self.port}",
            "NOTARY_ORDERS_OPS_LISTEN": f"127.0.0.1:{self.ops_port}",
            "NOTARY_ORDERS_DATA_DIR": str(self.data),
            "NOTARY_ORDERS_RATE_PER_SECOND": "0",
            "NOTARY_ORDERS_READS_RATE_PER_SECOND": "0",
            "NOTARY_ORDERS_DUPLICATE_WINDOW_SECS": "86400",
            "NOTARY_ORDERS_DRAIN_SECS": "0",
            **(environment or {}),
        }
        self.url = f"http://{host}:{self.port}"
        self.ops_url = f"http://127.0.0.1:{self.ops_port}"
        self.process: Process | None = None

    def run(self, *arguments: object, check: bool = True) -> str:
        """Runs a command of the binary with the settings of the instance."""
        return self.machine.run(self.binary, *arguments, env=self.environment, check=check)

    def migrate(self) -> None:
        self.run("migrate")

    def issue_key(self, *arguments: object) -> str:
        return self.run("keys", "issue", "--name", "load", *arguments).strip()

    def start(self, ready: bool = True) -> "Service":
        """Starts the instance, and waits until `/readyz` is 200."""
        self.process = self.machine.start(
            self.name, self.binary, env=self.environment,
            ready=(lambda: self.status("/readyz") == 200) if ready else None)
        return self

    def status(self, path: str) -> int:
        """Returns the status of a path of the operators' port, or 0 without an answer."""
        return self.ops(path)[0]

    def ops(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.ops_url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str) -> float:
        """Returns the sum of a metric over its labels."""
        lines = self.ops("/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith((name + " ", name + "{")))

    def wait_ready(self, timeout: float = 60.0) -> None:
        wait_until(f"{self.name} is ready", lambda: self.status("/readyz") == 200, timeout)

    def mail_folder(self) -> Path:
        """Returns the mail drop, which is used unless `NOTARY_ORDERS_MAIL_URL` is set."""
        return self.data / "mail"
