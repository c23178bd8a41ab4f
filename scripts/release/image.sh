#!/usr/bin/env bash
# Builds the image from the archives in target/packages, which hold static programs. Arguments go
# to the engine, such as `--platform linux/amd64,linux/arm64 --tag NAME --push`.
set -euo pipefail
cd "$(dirname "$0")/../.."

files=${CARGO_TARGET_DIR:-target}/packages
rm -rf "$files/image"
for archive in "$files"/notary-orders-*-linux-*.tar.gz; do
    # The names of the architectures in images.
    case $archive in
    *-x86_64.tar.gz) folder=$files/image/amd64 ;;
    *-aarch64.tar.gz) folder=$files/image/arm64 ;;
    *) echo "unknown architecture: $archive" >&2 && exit 1 ;;
    esac
    mkdir -p "$folder"
    tar -xz --strip-components 1 -C "$folder" -f "$archive"
    install --directory --mode=0700 "$folder/data"
done
# Replaces the stage of the Dockerfile that compiles.
exec "${ENGINE:-docker}" buildx build --build-context "program=$files/image" "$@" .
