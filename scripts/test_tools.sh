#!/usr/bin/env bash
# Installs the tools of the tests: packages of the system, and those of Python and JavaScript below the
# target directory.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# A C compiler builds SQLite. curl, jq, Node.js, PHP and Python run the examples of the guides.
# Chromium opens the docs page and the console, mandoc the manual page, and OpenSSL tries the TLS of the
# service. A JDK compiles a generated client. BusyBox and unzip read archives. The tests start PostgreSQL
# servers, so no cluster is created here.
missing=()
command -v busybox >/dev/null || missing+=(busybox)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v curl >/dev/null || missing+=(curl)
command -v jq >/dev/null || missing+=(jq)
command -v node >/dev/null || missing+=(nodejs)
command -v javac >/dev/null || missing+=(default-jdk-headless)
[ -e /usr/share/java/httpmime.jar ] || missing+=(libhttpmime-java)
[ -e /usr/share/java/geronimo-annotation-1.3-spec.jar ] ||
    missing+=(libgeronimo-annotation-1.3-spec-java)
command -v openssl >/dev/null || missing+=(openssl)
command -v php >/dev/null || missing+=(php-cli)
[ -x /usr/bin/chromium-headless-shell ] || missing+=(chromium-headless-shell)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
command -v sqlite3 >/dev/null || missing+=(sqlite3)
command -v funzip >/dev/null || missing+=(unzip)
command -v mandoc >/dev/null || missing+=(mandoc)
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ||
    missing+=(postgresql)
[ -x /usr/sbin/clamd ] || command -v clamd >/dev/null || missing+=(clamav-daemon)
[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null || missing+=(pgbouncer)
if [ ${#missing[@]} -gt 0 ]; then
    as_root apt-get update -q
    no_cluster=/etc/postgresql-common/createcluster.d/notary-orders-tests.conf
    as_root install -D /dev/null "$no_cluster"
    echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null
    (
        # No server starts when it is installed, and freshclam downloads no signatures.
        policy=/usr/sbin/policy-rc.d
        if [ ! -e "$policy" ]; then
            trap 'as_root rm "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$policy"
        fi
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
            "${missing[@]}"
    )
    as_root rm "$no_cluster"
fi

# Keeps the Python and JavaScript packages of the tests out of the system.
tools="${CARGO_TARGET_DIR:-target}/tools"
[ -x "$tools/venv/bin/python" ] || python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check \
    --requirement scripts/requirements.txt
scripts/client_tools.sh
# Tests the alerts. Installing the package would start a Prometheus server.
if [ ! -x "$tools/promtool" ]; then
    as_root apt-get update -q
    package=$(mktemp -d)
    (cd "$package" && apt-get download -q prometheus)
    dpkg-deb --fsys-tarfile "$package"/prometheus_*.deb |
        tar -x --strip-components 3 -C "$tools" ./usr/bin/promtool
    rm -r "$package"
fi
