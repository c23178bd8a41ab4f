#!/usr/bin/env bash
# Replaces the vendored files by those of another version: ./renew.sh 5.35.0
set -euo pipefail
cd "$(dirname "$0")"
version=${1:?a version of swagger-ui-dist}
files=(LICENSE NOTICE swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm pack --silent --pack-destination "$folder" "swagger-ui-dist@$version" >/dev/null
tar -xzf "$folder/swagger-ui-dist-$version.tgz" -C "$folder"
for file in "${files[@]}"; do cp "$folder/package/$file" .; done
sha256sum "${files[@]}" >SHA256SUMS
gzip -9nf swagger-ui-bundle.js swagger-ui.css
