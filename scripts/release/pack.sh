#!/usr/bin/env bash
# Packs a program, its description, the guides and the systemd unit into an archive, and prints the
# archive's name. Equal contents give equal bytes.
#
#     scripts/release/pack.sh PROGRAM ARCHITECTURE DESCRIPTION FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."

program=$1 architecture=$2 description=$3 folder=$4
version=$(cargo pkgid --package notary-orders | sed 's/.*[#@]//')
name=notary-orders-$version-linux-$architecture
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

mkdir -p "$work/$name/systemd" "$folder"
cp -R "$description/." README.md SECURITY.md LICENSE-* "$work/$name"
# An example that was compiled has files that are no part of it.
git ls-files -z docs | xargs -0 cp --parents --target-directory "$work/$name"
cp packaging/debian/notary-orders{-admin,.service,.env,.sysusers} "$work/$name/systemd"
install -m 755 "$program" "$work/$name/notary-orders"
(cd "$work/$name" && find . -type f -printf '%P\0' | sort -z | xargs -0 sha256sum >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$work/$name"
chmod -R u=rwX,go=rX "$work/$name"
tar -c --sort=name --owner=0 --group=0 --numeric-owner -C "$work" "$name" \
    --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" | gzip -n9 >"$folder/$name.tar.gz"
echo "$folder/$name.tar.gz"
