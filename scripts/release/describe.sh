#!/usr/bin/env bash
# Writes what a package has beside the program into a folder: manual page, completions, and the
# licences of the crates in the program.
#
#     scripts/release/describe.sh PROGRAM FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$1
folder=$2
# The program describes itself. Its settings must not come from the environment of the build.
describe() { env -i "$program" "$@"; }
mkdir -p "$folder/completions"
describe man >"$folder/notary-orders.1"
# Shells find completions by these names.
describe completions bash >"$folder/completions/notary-orders"
describe completions zsh >"$folder/completions/_notary-orders"
describe completions fish >"$folder/completions/notary-orders.fish"
scripts/release/licences.py >"$folder/THIRD-PARTY-LICENCES.txt"
