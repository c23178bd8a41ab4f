"""The side of the client after a change: looks its order up by the file number, sends all of it again with
another date, and explains the change in a note. Run it as often as you like: the order and the note are the
same afterwards.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY, FILE_NUMBER (of the order), SIGNING_DATE
(YYYY-MM-DD), STATE_DIR (folder of the idempotency keys).
"""

import os
from urllib.parse import quote

from create_orders import OrderFailed, get, idempotency_key, order, run, send


def change(file_number: str, signing_date: str) -> int:
    found = get(f"/api/order?limit=1&file_number={quote(file_number, safe='')}").json()["data"]
    if not found:
        raise OrderFailed(f"no order has the file number {file_number}: create it")
    order_id = found[0]["order_id"]
    changed = order(file_number)
    changed["signingDetailsFormData"]["signingDate"] = signing_date
    # A repeat changes nothing, so it needs no key. What is left out is removed: send the whole order.
    send("PUT", f"/api/order/{order_id}", 200, json=changed)
    key = {"Idempotency-Key": f'"{idempotency_key(f"{file_number}-{signing_date}")}"'}
    note = {"text": f"The borrower asked for {signing_date}."}
    send("POST", f"/api/order/{order_id}/notes", 201, key, json=note)
    return order_id


def main() -> None:
    file_number = os.environ.get("FILE_NUMBER", "REFI-2026-100-1")
    signing_date = os.environ.get("SIGNING_DATE", "2026-12-02")
    print("changed", change(file_number, signing_date), signing_date)


if __name__ == "__main__":
    run(main)
