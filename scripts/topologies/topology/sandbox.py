"""A sandbox of Linux namespaces: processes, network and mounts of its own.

The kernel ends every process of the sandbox when its first one ends, however that happens. So
nothing outlives a script, not even servers that put themselves into the background.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWIPC = 0x0002_0000, 0x0800_0000
_CLONE_NEWPID, _CLONE_NEWNET = 0x2000_0000, 0x4000_0000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1


def enter(name: str, keep: bool) -> Path:
    """Continues the script in a sandbox. Returns its temporary folder, which is removed at the end
    unless it is kept. Needs root, and has only a loopback network, so install and build before."""
    folder = Path(tempfile.mkdtemp(prefix=f"topology-{name}-"))
    # Servers that run as another user must reach their files.
    folder.chmod(0o755)
    _call(_LIBC.unshare(_CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET))
    init = os.fork()
    if init:
        _wait_outside(init, folder, keep)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C reaches only the process outside, which ends all others.
    os.setsid()
    # Not earlier: mounts would keep the process outside from removing their folders.
    _call(_LIBC.unshare(_CLONE_NEWNS))
    _call(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    _call(_LIBC.mount(b"proc", b"/proc", b"proc", 0, None))
    # Named network namespaces are mounts, and belong to the sandbox too.
    os.makedirs("/run/netns", exist_ok=True)
    _call(_LIBC.mount(b"tmpfs", b"/run/netns", b"tmpfs", 0, None))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    script = os.fork()
    if script:
        _reap(script)
    return folder


def _call(status: int) -> None:
    if status != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{os.strerror(error)}: the sandbox needs root and namespaces")


def _wait_outside(init: int, folder: Path, keep: bool) -> None:
    """Waits for the sandbox, removes its folder and exits with its status."""

    def end(number: int, _frame: object) -> None:
        os.kill(init, signal.SIGKILL)
        os.waitpid(init, 0)
        clean()
        os._exit(128 + number)

    def clean() -> None:
        if keep:
            print(f"kept {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    status = os.waitstatus_to_exitcode(os.waitpid(init, 0)[1])
    clean()
    sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


def _reap(script: int) -> None:
    """Waits for orphans as the first process of the sandbox, and exits when the script does."""
    while True:
        pid, status = os.wait()
        if pid == script:
            status = os.waitstatus_to_exitcode(status)
            os._exit(status if status >= 0 else 128 - status)
