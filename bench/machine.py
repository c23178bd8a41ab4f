"""Processes, folders, processor time and memory on this machine."""

import contextlib
import glob
import os
import pathlib
import resource
import signal
import socket
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR")
                      or pathlib.Path(__file__).resolve().parent.parent / "target")


def free_address():
    """Returns a free address on loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def wait_until(what, condition, timeout=30, pause=0.05):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"timeout: {what}")
        time.sleep(pause)


@contextlib.contextmanager
def folder():
    """Yields an empty folder, and removes it at the end.

    On ext4 without a journal, new files are slow for minutes in a block group that just lost
    files. The flag T gives the folder a block group of its own. Other file systems reject it.
    """
    outer = pathlib.Path(tempfile.mkdtemp(prefix="notary-orders-bench-"))
    try:
        subprocess.run(["chattr", "+T", outer], stderr=subprocess.DEVNULL, check=False)
        inner = outer / os.urandom(4).hex()
        inner.mkdir()
        for path in (outer, inner):
            path.chmod(0o777)  # For the user of PostgreSQL.
        yield inner
    finally:
        # A session of its own, so that it ends its work even when a signal ends this script.
        subprocess.Popen(["rm", "-rf", outer], start_new_session=True).wait()


class Process:
    """A server. The kernel ends it when this script ends, however that happens."""

    def __init__(self, *command, log, ready, env=None, prefix=(), end="TERM"):
        started = time.monotonic()
        command = ["setpriv", *prefix, f"--pdeathsig={end}", *map(str, command)]
        with open(log, "wb") as output:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=output, env={**os.environ, **(env or {})})
        self.end = signal.Signals[f"SIG{end}"]

        def is_ready():
            if self.child.poll() is not None:
                raise SystemExit(f"{command} ended:\n{log.read_text(errors='replace')[-4000:]}")
            return ready()

        try:
            wait_until(f"start of {command}", is_ready, pause=0.001)
        except BaseException:
            self.stop()
            raise
        self.seconds_to_start = time.monotonic() - started

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(self.end)
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def _all(self):
        """Returns the process and its children."""
        pids = [self.child.pid]
        for path in glob.glob(f"/proc/{self.child.pid}/task/*/children"):
            with contextlib.suppress(OSError):
                pids += map(int, pathlib.Path(path).read_text().split())
        return pids

    def cpu(self):
        """Returns the processor seconds of the process and its children, ended ones too."""
        ticks = 0
        for pid in self._all():
            with contextlib.suppress(OSError):
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()
                ticks += sum(map(int, fields[11:15] if pid == self.child.pid else fields[11:13]))
        return ticks / TICKS

    def memory(self, name="VmRSS"):
        """Returns the resident memory in MiB, or with VmHWM its peak since `reset_peak`."""
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) / 1024

    def reset_peak(self):
        pathlib.Path(f"/proc/{self.child.pid}/clear_refs").write_text("5")


def client_cpu():
    """Returns the processor seconds of this script and of its ended children, such as wrk."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))
