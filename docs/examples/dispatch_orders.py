"""The side of the signing service: finds its open orders, assigns a notary to each, and confirms it.
Run it again and again: it looks at the orders that have changed since the last run, and misses none.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
NOTARY_ID, STATE_DIR (folder of the cursor of the last run).
"""

import os
import random
import time
from pathlib import Path
from urllib.parse import quote

from create_orders import OrderFailed, get, run, send

NOTARY_ID = int(os.environ.get("NOTARY_ID", "7001"))
ATTEMPTS = 3


def next_change(order: dict) -> dict | None:
    """Decides by the state of an order. Your product asks its notaries here."""
    if order["order_status"] == "NEW":
        return {"order_status": "ASSIGNED", "notary_id": NOTARY_ID}
    if order["order_status"] == "ASSIGNED" and order["notary_id"] == NOTARY_ID:
        return {"order_status": "CONFIRMED"}
    return None


def dispatch(order_id: int) -> None:
    path = f"/api/order/{order_id}"
    lost = 0
    while True:
        try:
            found = get(path)
        except OrderFailed as failure:
            if failure.code == "erased":
                return
            raise
        change = next_change(found.json())
        if change is None:
            return
        try:
            # Changes only the version that was read, so a repeat is safe, too.
            send("PATCH", path, 200, {"If-Match": found.headers["ETag"]}, json=change)
        except OrderFailed as failure:
            if failure.code != "precondition_failed":
                raise
            lost += 1
            if lost == ATTEMPTS:
                raise OrderFailed(
                    f"gave up on order {order_id} after {ATTEMPTS} answers 412: another program keeps "
                    f"changing it, or a proxy changes ETag or If-Match"
                ) from failure
            # Another dispatcher or the client was quicker: read the order again, and decide anew. The
            # pause keeps two dispatchers from meeting again.
            time.sleep(random.uniform(0.5, 1.0))
        else:
            print(change["order_status"], order_id, flush=True)


def open_orders() -> list[int]:
    """Reads all pages of the open orders, and returns the oldest first."""
    orders, before = [], ""
    while True:
        page = get(f"/api/order?limit=100&order_status=NEW,ASSIGNED{before}").json()
        orders += page["data"]
        if not page["has_more"]:
            return [order["order_id"] for order in reversed(orders) if next_change(order)]
        before = f"&starting_after={orders[-1]['order_id']}"


def main() -> None:
    """Looks at all open orders in the first run, and follows the changes after that."""
    stored = Path(os.environ.get("STATE_DIR", "."), "dispatched-to")
    if not stored.exists():
        # Before the first page is read: an order that changes meanwhile is found in the next run.
        now = get("/api/order/changes?after=now").json()["next_after"]
        for order_id in open_orders():
            dispatch(order_id)
        stored.write_text(now)
        return
    has_more = True
    while has_more:
        page = get(f"/api/order/changes?limit=100&after={quote(stored.read_text(), safe='')}").json()
        for order_id in dict.fromkeys(change["order_id"] for change in page["data"]):
            dispatch(order_id)
        # Only now: after a crash, the next run looks at these orders again. Your product has the cursor in its
        # database.
        stored.write_text(page["next_after"])
        has_more = page["has_more"]


if __name__ == "__main__":
    run(main)
