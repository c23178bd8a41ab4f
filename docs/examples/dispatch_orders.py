"""The side of the signing service: finds its open orders, assigns a notary to each, and confirms it.
Run it again and again: it looks at the orders that have changed since the last run.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
NOTARY_ID, STATE_DIR (folder of the time of the last run).
"""

import os
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from create_orders import OrderFailed, get, run, send

NOTARY_ID = int(os.environ.get("NOTARY_ID", "7001"))
ATTEMPTS = 3
# More than the clock of this machine may differ from the clock of the service. Orders of this time are
# read twice, which does no harm: what is to do depends on their state.
OVERLAP = timedelta(minutes=5)


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
        found = get(path)
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


def changed(since: str | None) -> list[dict]:
    """Reads all pages of the open orders that were created or changed since a time, the newest first."""
    path = "/api/order?limit=100&order_status=NEW,ASSIGNED"
    if since:
        path += f"&updated_after={since}"
    orders, before = [], ""
    while True:
        page = get(path + before).json()
        orders += page["data"]
        if not page["has_more"]:
            return orders
        before = f"&starting_after={orders[-1]['order_id']}"


def main() -> None:
    """Looks at all open orders in the first run. Your product has the time in its database."""
    stored = Path(os.environ.get("STATE_DIR", "."), "polled-at")
    # Before the first page is read: an order that changes meanwhile is found in the next run.
    began = datetime.now(timezone.utc) - OVERLAP
    for order in reversed(changed(stored.read_text() if stored.exists() else None)):
        if next_change(order):
            dispatch(order["order_id"])
    stored.write_text(began.strftime("%Y-%m-%dT%H:%M:%SZ"))


if __name__ == "__main__":
    run(main)
