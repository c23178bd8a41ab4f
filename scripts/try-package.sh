#!/usr/bin/env bash
# Tests the Debian package in a fresh Debian, which systemd boots in a container without a network.
# Installs, starts, configures, upgrades, removes and purges it, and checks each result. Needs root,
# and a few minutes beside the build.
#
#     scripts/try-package.sh [PACKAGE [NEWER_PACKAGE]]
#
# Without a package, builds one. Without a newer one, uses the same package with a higher version.
# shellcheck disable=SC2016 # other programs expand the quoted variables
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }
ok() { printf '   %s\n' "$*"; }
fail() { printf '\nFAILED: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || fail "this needs root"
missing=()
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi

work=$(mktemp -d)
machine=$work/machine
container=
leader=

# Stops the container when this script ends.
end() {
    status=$?
    if [ "$status" -ne 0 ] && [ -n "$leader" ]; then
        inside journalctl --unit notary-orders --no-pager --lines 20 >&2 || true
    fi
    if [ -n "$container" ] && kill -TERM "$container" 2>/dev/null; then
        for _ in $(seq 300); do
            kill -0 "$container" 2>/dev/null || break
            sleep 0.2
        done
        kill -KILL "$container" 2>/dev/null || true
        wait "$container" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$work"
    exit "$status"
}
trap end EXIT
trap 'exit 130' INT TERM

inside() {
    nsenter --target "$leader" --all -- env --ignore-environment --chdir=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
service() { inside systemctl show --property "$1" --value notary-orders; }
log() { inside journalctl --unit notary-orders --output cat --no-pager; }

wait_until() {
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then
            ok "$what"
            return
        fi
        sleep 0.2
    done
    fail "not within a minute: $what"
}
same() {
    [ "$2" = "$3" ] || fail "$1: expected $2, found $3"
    ok "$1: $3"
}
is_ready() { inside curl --fail --silent http://127.0.0.1:8081/readyz; }
is_failed() { [ "$(service ActiveState)" = failed ]; }
was_restarted() { [ "$(service NRestarts)" -gt 0 ]; }
logged() { [[ $(log) == *"$1"* ]]; }
owner_and_mode() { inside stat --format '%U:%G %a' "$1"; }
settings=/etc/notary-orders/notary-orders.env
set_to() { inside sed -i -e "/^$1=/d" -e "\$a$1=$2" $settings; }
unset_again() { inside sed -i "/^$1=/d" $settings; }

# Creates an order, prints the status of the answer, and saves the answer in /root/answer.
create() {
    inside curl --silent --show-error --output answer --write-out '%{http_code}' http://127.0.0.1:8080/api/order/create \
        --header "Authorization: Bearer $key" --header 'Content-Type: application/json' --data '{
            "signingContactsFormData": { "orderContactEmail": "escrow@title.example.com" },
            "signingDetailsFormData": { '"$(details "$1")"' },
            "signingServiceId": 42, "requestedBy": { "userId": 1001 } }'
}
create_with_documents() {
    inside curl --silent --show-error --output answer --write-out '%{http_code}' http://127.0.0.1:8080/api/order/create-with-documents \
        --header "Authorization: Bearer $key" --form 'signingContactsFormData={"orderContactEmail":"escrow@title.example.com"}' \
        --form "signingDetailsFormData={$(details "$1")}" --form signingServiceId=42 --form 'requestedBy={"userId":1001}' \
        --form documents=@deed-of-trust.pdf --form documents=@signing-instructions.docx
}
details() {
    printf '%s' '"fileNumber":"'"$1"'","signingDate":"2026-12-01","signingTimeType":"at","specificTime":"14:30","timeZoneId":"America/Chicago",' \
        '"propertyAddress":"123 Main St","city":"Dallas","state":"TX","zipcode":"75201","signingType":"Refinance","signerName":"Jane Doe",' \
        '"signerPhone":"+1 555 010 0199","signerEmail":"jane.doe@example.com"'
}
order_id() { inside sed -E 's/.*"order_id":([0-9]+).*/\1/' answer; }
stored_documents() { inside sh -c 'cd /var/lib/notary-orders/documents && find . -type f -exec sha256sum {} + | sort'; }

step packages
if [ $# -ge 1 ]; then
    cp "$1" "$work/first.deb"
else
    cargo deb --version >/dev/null 2>&1 || cargo install cargo-deb --locked
    scripts/deb.sh --output "$work/first.deb"
fi
if [ $# -ge 2 ]; then
    cp "$2" "$work/newer.deb"
else
    dpkg-deb --raw-extract "$work/first.deb" "$work/newer"
    sed -i '/^Version:/s/$/+newer/' "$work/newer/DEBIAN/control"
    dpkg-deb --build -Zgzip "$work/newer" "$work/newer.deb" >/dev/null
fi
first_version=$(dpkg-deb --field "$work/first.deb" Version)
newer_version=$(dpkg-deb --field "$work/newer.deb" Version)
dpkg --compare-versions "$first_version" lt "$newer_version" || fail "$newer_version is not newer than $first_version"
dpkg-deb --info "$work/first.deb" | grep -E '^ (Package|Version|Architecture|Installed-Size|Depends):'

step "a fresh machine"
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Codename: $release" 'Component: main' | head -n 1)
debootstrap --variant=minbase --include=ca-certificates,curl,dbus,procps,systemd-sysv "${SUITE:-$release}" "$machine" "$mirror" >"$work/debootstrap.log" ||
    { tail "$work/debootstrap.log" >&2; fail "debootstrap"; }
cp "$work/first.deb" "$work/newer.deb" docs/examples/deed-of-trust.pdf docs/examples/signing-instructions.docx "$machine/root"
# Without systemd on this machine there is no scope to register.
scope=()
[ -d /run/systemd/system ] || scope=(--keep-unit)
systemd-nspawn --quiet --directory="$machine" --machine="notary-orders-$$" --boot --register=no "${scope[@]}" --private-network --console=read-only \
    >"$work/console.log" 2>&1 </dev/null &
container=$!
is_booted() {
    leader=$(pgrep --parent "$container" --exact systemd) && [[ $(inside systemctl is-system-running) =~ ^(running|degraded)$ ]]
}
wait_until "systemd has booted" is_booted
ok "$(inside sh -c '. /etc/os-release; echo "$PRETTY_NAME"'), $(inside systemctl --version | head -n 1)"

step install
inside dpkg --install first.deb
wait_until "the service is ready" is_ready
same "the unit is enabled" enabled "$(inside systemctl is-enabled notary-orders)"
for expected in 'root:root 755 /usr/bin/notary-orders' 'root:root 755 /usr/sbin/notary-orders-admin' "root:root 600 $settings" \
    'root:root 644 /usr/lib/systemd/system/notary-orders.service' 'root:root 644 /usr/share/doc/notary-orders/copyright' \
    'root:root 644 /usr/share/doc/notary-orders/operations.md' 'root:root 644 /usr/share/doc/notary-orders/THIRD-PARTY-LICENCES.txt' 'root:root 644 /usr/share/man/man1/notary-orders.1.gz' \
    'root:root 644 /usr/share/bash-completion/completions/notary-orders' 'root:root 644 /usr/share/zsh/vendor-completions/_notary-orders' \
    'root:root 644 /usr/share/fish/vendor_completions.d/notary-orders.fish' 'notary-orders:notary-orders 700 /var/lib/notary-orders' \
    'notary-orders:notary-orders 600 /var/lib/notary-orders/notary-orders.sqlite' 'notary-orders:notary-orders 700 /var/lib/notary-orders/spool' \
    'notary-orders:notary-orders 600 /var/lib/notary-orders/first-key'; do
    same "${expected##* }" "${expected% *}" "$(owner_and_mode "${expected##* }")"
done
same "login shell of the user" /usr/sbin/nologin "$(inside sh -c 'getent passwd notary-orders | cut -d: -f7')"

inside notary-orders health || fail "the service is not healthy"
inside notary-orders-admin doctor || fail "the doctor finds a failure"

step "what the process may do"
process=$(service MainPID)
same "user" notary-orders "$(inside ps -o user:20= -p "$process" | tr -d ' ')"
for expected in 'NoNewPrivs 1' 'Seccomp 2' 'CapEff 0000000000000000' 'CapBnd 0000000000000000'; do
    same "${expected% *}" "${expected#* }" "$(inside sed -n "s/^${expected% *}:\t//p" "/proc/$process/status")"
done
inside systemd-analyze verify notary-orders.service
inside systemd-analyze security --offline=true --threshold=20 /usr/lib/systemd/system/notary-orders.service | tail -n 1

step "orders"
wait_until "the journal holds the log" logged '"message":"listening"'
if logged nok_; then fail "the journal holds an API key"; fi
ok "the journal holds no API key"
key=$(inside notary-orders-admin keys issue --name try 2>/dev/null)
same "an order" 201 "$(create ONE)"
same "an order with documents" 201 "$(create_with_documents TWO)"
stored_documents >"$work/documents"
same "documents on disk" 2 "$(wc -l <"$work/documents")"
has_mailed() { [ "$(inside find /var/lib/notary-orders/mail -name '*.eml' | wc -l)" -eq 2 ]; }
wait_until "mails are written" has_mailed

step "settings"
set_to NOTARY_ORDERS_DUPLICATE_WINDOW_SECS 86400
inside systemctl restart notary-orders
wait_until "ready after a restart" is_ready
same "a file number from before the restart, in a window of a day" 409 "$(create ONE)"
set_to NOTARY_ORDERS_LISTEN nonsense
inside systemctl restart notary-orders 2>/dev/null || true
wait_until "an unreadable setting stops the start" is_failed
same "restarts" 0 "$(service NRestarts)"
wait_until "the journal names it" logged --listen
unset_again NOTARY_ORDERS_LISTEN
set_to DATABASE_URL postgres://orders:hidden@127.0.0.1:1/orders
inside systemctl restart notary-orders 2>/dev/null || true
wait_until "an unavailable database is retried" was_restarted
wait_until "the journal names it" logged 'error: --database-url (DATABASE_URL)'
if logged hidden; then fail "the journal holds a password"; fi
unset_again DATABASE_URL
wait_until "the next start succeeds" is_ready

step upgrade
before=$(service MainPID)
configured=$(inside sha256sum $settings)
inside dpkg --install newer.deb
same "version" "$newer_version" "$(inside dpkg-query --show --showformat '${Version}' notary-orders)"
wait_until "ready after the upgrade" is_ready
[ "$(service MainPID)" != "$before" ] || fail "the service was not restarted"
ok "the service was restarted"
same "the settings are kept" "$configured" "$(inside sha256sum $settings)"
same "$settings" 'root:root 600' "$(owner_and_mode $settings)"
same "a file number from before the upgrade" 409 "$(create TWO)"
stored_documents | cmp - "$work/documents" || fail "the documents have changed"
ok "the documents are unchanged"
same "another order" 201 "$(create THREE)"
same "its number" 3 "$(order_id)"

step stop
inside systemctl stop notary-orders
same "result" success "$(service Result)"
same "exit status" 0 "$(service ExecMainStatus)"
inside systemctl start notary-orders
wait_until "ready again" is_ready

step remove
inside dpkg --remove notary-orders
same "processes" 0 "$(inside pgrep --count --exact notary-orders || true)"
if inside test -e /usr/bin/notary-orders; then fail "the program is still there"; fi
same "the settings are kept" "$configured" "$(inside sha256sum $settings)"
stored_documents | cmp - "$work/documents" || fail "the documents have changed"
ok "the documents are unchanged"

step "install again"
inside dpkg --install newer.deb
wait_until "ready" is_ready
same "a file number from before the removal" 409 "$(create THREE)"
same "another order" 201 "$(create FOUR)"
same "its number" 4 "$(order_id)"

step purge
inside dpkg --purge notary-orders
same "processes" 0 "$(inside pgrep --count --exact notary-orders || true)"
same "remaining files" /var/lib/notary-orders "$(inside find / -xdev -name '*notary-orders*' -not -path '/var/lib/notary-orders/*' -printf '%p ' | sed 's/ $//')"
stored_documents | cmp - "$work/documents" || fail "the documents have changed"
ok "the documents are unchanged"

printf '\nthe package can be installed, configured, upgraded, removed and purged\n'
