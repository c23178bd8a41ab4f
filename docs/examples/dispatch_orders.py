"""The side of the signing service: finds its new orders, assigns a notary to each, and confirms it.
Run it again and again: it goes on after the last order that it has seen.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
NOTARY_ID, STATE_DIR (folder of the position in the list).
"""

import os
import random
import time
from pathlib import Path

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


def oldest() -> int | None:
    """Pages to the end of the list, which begins with the newest order."""
    before = ""
    while True:
        page = get(f"/api/order?limit=100{before}").json()
        order_id = page["data"][-1]["order_id"] if page["data"] else None
        if not page["has_more"]:
            return order_id
        before = f"&starting_after={order_id}"


def main() -> None:
    """Follows the list of orders from its stored position, which your product has in its database.
    Begins with the oldest order."""
    stored = Path(os.environ.get("STATE_DIR", "."), "newest-order")
    if not stored.exists():
        first = oldest()
        if first is None:
            return
        dispatch(first)
        stored.write_text(str(first))
    while True:
        orders = get(f"/api/order?limit=100&ending_before={stored.read_text()}").json()["data"]
        if not orders:
            return
        for order in reversed(orders):
            if next_change(order):
                dispatch(order["order_id"])
        stored.write_text(str(orders[0]["order_id"]))


if __name__ == "__main__":
    run(main)
