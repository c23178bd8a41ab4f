#!/usr/bin/env bash
# Keeps a copy of all orders that the key sees in a file of SQLite. Run it again and again, for example by a
# timer or when a webhook arrives: it goes on where it was. It misses no change, also if it is killed. If the
# service was restored from an older backup, it begins anew.
#
# Needs create-orders.sh beside it, and sqlite3. Settings: BASE_URL, API_KEY, STATE_DIR (folder of mirror.db).
set -euo pipefail

. "$(dirname "$0")/create-orders.sh"
command -v sqlite3 >/dev/null || { echo 'install sqlite3' >&2; exit 1; }
mirror=${STATE_DIR:-.}/mirror.db

# Reads an order as it is now, which may be later than the change, into $work/order. Empty if it is erased.
read_order() {
    if ! get "/api/order/$1" "$work/order" 2>"$work/failure"; then
        [ "$(problem .code)" = erased ] || { cat "$work/failure" >&2; return 1; }
        : >"$work/order"
    fi
}

# shellcheck disable=SC2016 # jq expands its own names
quote='def quoted: "\u0027" + gsub("\u0027"; "\u0027\u0027") + "\u0027";'
replace="$quote"' "INSERT OR REPLACE INTO orders VALUES (\(.order_id), \(.file_number | quoted), " +
    "\(.order_status | quoted), \(.updated_at | quoted), \(tojson | quoted));"'
advance="$quote"' "INSERT OR REPLACE INTO feed VALUES (1, \(.next_after | quoted)); COMMIT;"'

# Applies the next page of changes, which is in $work/page then.
apply_page() {
    local after order_id
    after=$(sqlite3 "$mirror" 'SELECT next_after FROM feed' | jq -Rr @uri)
    if ! get "/api/order/changes?limit=100${after:+&after=$after}" "$work/page" 2>"$work/failure"; then
        [ "$(problem '.errors // [] | any(.code == "unknown_cursor")')" = true ] ||
            { cat "$work/failure" >&2; return 1; }
        sqlite3 -bail "$mirror" 'BEGIN; DELETE FROM orders; DELETE FROM feed; COMMIT;'
        echo '{"has_more":true}' >"$work/page"
        return
    fi
    echo 'BEGIN IMMEDIATE;' >"$work/statements"
    : >"$work/lines"
    # An order that changed twice is read once.
    for order_id in $(jq '[.data[].order_id] | unique[]' "$work/page"); do
        if jq -e "any(.data[]; .order_id == $order_id and .kind == \"erased\")" "$work/page" >/dev/null; then
            : >"$work/order"
        else
            read_order "$order_id"
        fi
        if [ -s "$work/order" ]; then
            jq -r "$replace" "$work/order" >>"$work/statements"
            jq -r '"\(.order_status) \(.order_id)"' "$work/order" >>"$work/lines"
        else
            echo "DELETE FROM orders WHERE order_id = $order_id;" >>"$work/statements"
            echo "erased $order_id" >>"$work/lines"
        fi
    done
    # One transaction for the orders and for the cursor: after a crash, the next run asks for this page again.
    jq -r "$advance" "$work/page" >>"$work/statements"
    sqlite3 -bail "$mirror" <"$work/statements"
    cat "$work/lines"
}

sqlite3 "$mirror" 'CREATE TABLE IF NOT EXISTS orders (
    order_id INTEGER PRIMARY KEY, file_number TEXT, order_status TEXT, updated_at TEXT, record TEXT
); CREATE TABLE IF NOT EXISTS feed (one INTEGER PRIMARY KEY CHECK (one = 1), next_after TEXT);'
apply_page
while [ "$(jq .has_more "$work/page")" = true ]; do apply_page; done
