"""The frame of a topology script."""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from . import sandbox
from .figures import Figures
from .processes import Machine

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

Main = Callable[[Machine, argparse.Namespace, Figures], None]


def run(main: Main, description: str, packages: dict[str, str] | None = None,
        options: Callable[[argparse.ArgumentParser], None] | None = None,
        prepare: Callable[[], object] | None = None) -> None:
    """Runs a topology and exits: 0 if every limit holds.

    `packages` has the Debian packages by a program or path (with wildcards) that each brings.
    `prepare` runs before the sandbox and has the network. `main` runs inside, and has the result of
    `prepare` as `machine.prepared`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    if options:
        options(parser)
    arguments = parser.parse_args()
    binary = _binary()
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", "env", f"NOTARY_ORDERS_BINARY={binary}",
                           f"CARGO_TARGET_DIR={TARGET}", sys.executable, *sys.argv])
    os.environ["NOTARY_ORDERS_BINARY"] = binary
    # Debian has servers in `sbin`, which is not in the path of every user.
    os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin:/sbin"
    _install({"ip": "iproute2", "setpriv": "util-linux", **(packages or {})})
    prepared = prepare() if prepare else None
    name = Path(sys.argv[0]).stem
    machine, begin = Machine(sandbox.enter(name, arguments.keep)), time.monotonic()
    machine.prepared = prepared
    figures = Figures()
    try:
        main(machine, arguments, figures)
    except BaseException:
        print(machine.tails(), flush=True)
        traceback.print_exc()
        sys.exit(1)
    figures.add("time of the run", time.monotonic() - begin, "s")
    sys.exit(0 if figures.print() else 1)


def venv(requirements: Path) -> Path:
    """Makes a virtual environment with these packages, and returns its folder. Call it in
    `prepare`. It is of the system's Python, which servers that do not run as root can reach."""
    folder = TARGET / "tools" / f"venv-{requirements.stem}"
    if not (folder / "bin/pip").exists():
        _install({"/usr/lib/python3*/ensurepip": "python3-venv"})
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check",
                    "--requirement", requirements], check=True)
    return folder


def _binary() -> str:
    """Returns the binary of `NOTARY_ORDERS_BINARY`, or builds one."""
    if "NOTARY_ORDERS_BINARY" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    binary = os.environ.get("NOTARY_ORDERS_BINARY", str(TARGET / "release/notary-orders"))
    return str(Path(binary).resolve())


def _install(packages: dict[str, str]) -> None:
    missing = {package for program, package in packages.items()
               if not (glob.glob(program) if "/" in program else shutil.which(program))}
    if not missing:
        return
    # The scripts start the servers themselves: the packages must not.
    policy = Path("/usr/sbin/policy-rc.d")
    has_policy = policy.exists()
    if not has_policy:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    no_cluster = Path("/etc/postgresql-common/createcluster.d/notary-orders-topologies.conf")
    no_cluster.parent.mkdir(parents=True, exist_ok=True)
    no_cluster.write_text("create_main_cluster = false\n")
    try:
        subprocess.run(["apt-get", "update", "-q"], check=True)
        subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", *sorted(missing)],
                       check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    finally:
        no_cluster.unlink()
        if not has_policy:
            policy.unlink()


def parse_positive(text: str) -> int:
    """Parses a number above 0, for options."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value

