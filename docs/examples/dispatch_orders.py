"""The side of the signing service: finds its new orders, assigns a notary to each, and confirms it.
Run it again and again: it goes on after the last order that it has seen.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY (a key of the signing service),
NOTARY_ID, STATE_DIR (folder of the position in the list).
"""

import os
from pathlib import Path

from create_orders import OrderFailed, get, run, send

NOTARY_ID = int(os.environ.get("NOTARY_ID", "7001"))


def next_change(order: dict) -> dict | None:
    """Decides by the state of an order. Your product asks its notaries here."""
    if order["order_status"] == "NEW":
        return {"order_status": "ASSIGNED", "notary_id": NOTARY_ID}
    if order["order_status"] == "ASSIGNED" and order["notary_id"] == NOTARY_ID:
        return {"order_status": "CONFIRMED"}
    return None


def dispatch(order_id: int) -> None:
    path = f"/api/order/{order_id}"
    while True:
        found = get(path)
        change = next_change(found.json())
        if change is None:
            return
        try:
            # Changes only the version that was read, so a repeat is safe, too.
            send("PATCH", path, 200, {"If-Match": found.headers["ETag"]}, json=change)
        except OrderFailed as failure:
            # Another dispatcher or the client was quicker: read the order again, and decide anew.
            if failure.code != "precondition_failed":
                raise
        else:
            print(change["order_status"], order_id, flush=True)


def main() -> None:
    """Follows the list of orders from its stored position, which your product has in its database.
    Begins with the newest 100."""
    stored = Path(os.environ.get("STATE_DIR", "."), "newest-order")
    while True:
        since = f"&ending_before={stored.read_text()}" if stored.exists() else ""
        orders = get(f"/api/order?limit=100{since}").json()["data"]
        if not orders:
            return
        for order in reversed(orders):
            dispatch(order["order_id"])
        stored.write_text(str(orders[0]["order_id"]))


if __name__ == "__main__":
    run(main)
