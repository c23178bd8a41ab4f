"""Starts and stops the servers of a topology."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# Time limit for a server to become ready, in seconds.
READY_TIMEOUT = 60.0


def wait_until(what: str, condition: Callable[[], object],
               timeout: float = READY_TIMEOUT) -> object:
    """Calls a condition until it is true, and returns its value. A connection that fails counts as
    not yet. Raises `TimeoutError`."""
    deadline = time.monotonic() + timeout
    failure: Exception | None = None
    while time.monotonic() < deadline:
        try:
            value = condition()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            failure, value = error, None
        if value:
            return value
        time.sleep(0.05)
    cause = f" ({failure})" if failure else ""
    raise TimeoutError(f"after {timeout:.0f} s not yet: {what}{cause}")


class Process:
    """A server with a process group and a log of its own."""

    def __init__(self, name: str, popen: subprocess.Popen, log: Path) -> None:
        self.name, self.log, self._popen = name, log, popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def signal(self, number: int) -> None:
        """Sends a signal to the server and to what it started in its group."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def kill(self) -> None:
        """Kills the server and its group, as a crash of the machine would."""
        self.signal(signal.SIGKILL)
        self._popen.wait()

    def stop(self, timeout: float = 40.0) -> int:
        """Stops the server by SIGTERM, and returns its exit status."""
        if self.is_running():
            os.kill(self.pid, signal.SIGTERM)
        return self._popen.wait(timeout)

    def wait(self, timeout: float) -> int:
        return self._popen.wait(timeout)

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Machine:
    """The servers of a topology, their folder and their ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        # What the script prepared before the sandbox.
        self.prepared: object = None

    def make_folder(self, name: str, owner: str | None = None) -> Path:
        """Makes a folder for one server, for a user of the system if one is named."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        if owner:
            subprocess.run(["chown", f"{owner}:", str(folder)], check=True)
        return folder

    def free_port(self) -> int:
        """Returns a port that nothing uses."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return listener.getsockname()[1]

    def command(self, argv: Sequence[object], user: str | None, namespace: str | None) -> list[str]:
        """Returns a command that runs as another user or in a network namespace."""
        words = [str(word) for word in argv]
        if user:
            words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *words]
        return ["ip", "netns", "exec", namespace, *words] if namespace else words

    def run(self, *argv: object, user: str | None = None, namespace: str | None = None,
            env: dict[str, str] | None = None, timeout: float = 120.0, check: bool = True) -> str:
        """Runs a command to its end and returns its standard output."""
        done = subprocess.run(
            self.command(argv, user, namespace), env=env, cwd=self.folder, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, argv))}: exit status {done.returncode}\n"
                               f"{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, name: str, *argv: object, ready: Callable[[], object] | None = None,
              user: str | None = None, namespace: str | None = None,
              env: dict[str, str] | None = None, cwd: Path | None = None,
              timeout: float = READY_TIMEOUT) -> Process:
        """Starts a server, and waits until it is ready. A second start continues its log."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            popen = subprocess.Popen(
                self.command(argv, user, namespace), env=env, cwd=cwd or self.folder, stdout=output,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        process = Process(name, popen, log)
        self.processes.append(process)

        def is_ready() -> bool:
            if not process.is_running():
                raise RuntimeError(f"{name} stopped at its start:\n{process.tail()}")
            return bool(ready())

        if ready:
            wait_until(f"{name} is ready", is_ready, timeout)
        return process

    def tails(self) -> str:
        """Returns the ends of all logs, to explain a failure."""
        logs = {process.log: process for process in self.processes}
        return "\n".join(f"--- {process.name}\n{process.tail()}" for process in logs.values())


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Returns whether a port accepts connections."""
    with socket.create_connection((host, port), timeout=1):
        return True


def kill_tree(pid: int) -> None:
    """Kills a process and all its descendants, also those with groups of their own."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a process may have spaces and parentheses.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    for member in tree:
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            pass
