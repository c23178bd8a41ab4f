"""Keeps a copy of all orders that the key sees in a file of SQLite. Run it again and again, for example by a
timer or when a webhook arrives: it goes on where it was. It misses no change, also if it is killed. If the
service was restored from an older backup, it begins anew.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY, STATE_DIR (folder of mirror.db).
"""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from create_orders import OrderFailed, get, run

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    order_id INTEGER PRIMARY KEY, file_number TEXT, order_status TEXT, updated_at TEXT, record TEXT
);
CREATE TABLE IF NOT EXISTS feed (one INTEGER PRIMARY KEY CHECK (one = 1), next_after TEXT);
"""


def read(order_id: int) -> dict | None:
    """Reads an order as it is now, which may be later than the change. None if it is erased."""
    try:
        return get(f"/api/order/{order_id}").json()
    except OrderFailed as failure:
        if failure.code != "erased":
            raise
        return None


def apply_page(mirror: sqlite3.Connection) -> bool:
    """Applies the next page of changes. Returns whether there are more."""
    stored = mirror.execute("SELECT next_after FROM feed").fetchone()
    after = f"&after={quote(stored[0], safe='')}" if stored else ""
    try:
        page = get(f"/api/order/changes?limit=100{after}").json()
    except OrderFailed as failure:
        if "unknown_cursor" not in failure.faults:
            raise
        with mirror:
            mirror.execute("DELETE FROM orders")
            mirror.execute("DELETE FROM feed")
        return True
    # An order that changed twice is read once.
    changed = list(dict.fromkeys(change["order_id"] for change in page["data"]))
    gone = {change["order_id"] for change in page["data"] if change["kind"] == "erased"}
    orders = {order_id: None if order_id in gone else read(order_id) for order_id in changed}
    # One transaction for the orders and for the cursor: after a crash, the next run asks for this page again.
    with mirror:
        for order_id, order in orders.items():
            if order is None:
                mirror.execute("DELETE FROM orders WHERE order_id = ?", (order_id,))
            else:
                row = [order[name] for name in ("order_id", "file_number", "order_status", "updated_at")]
                mirror.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?)", (*row, json.dumps(order)))
        mirror.execute("INSERT OR REPLACE INTO feed VALUES (1, ?)", (page["next_after"],))
    for order_id, order in orders.items():
        print(order["order_status"] if order else "erased", order_id, flush=True)
    return page["has_more"]


def main() -> None:
    with closing(sqlite3.connect(Path(os.environ.get("STATE_DIR", "."), "mirror.db"))) as mirror:
        mirror.executescript(SCHEMA)
        while apply_page(mirror):
            pass


if __name__ == "__main__":
    run(main)
