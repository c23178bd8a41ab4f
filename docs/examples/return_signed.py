"""The side of the signing service after the appointment: returns the signed documents of an order, and sets its
status to SIGNED. Run it as often as you like: the documents are stored once.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY (a key of the signing service), ORDER_ID,
SIGNED_DOCUMENT (a file; here the unsigned deed), STATE_DIR (folder of the idempotency keys).
"""

import os
import sys
from pathlib import Path

from create_orders import idempotency_key, run, send


def return_signed(order_id: int, document: Path) -> int:
    key = {"Idempotency-Key": f'"{idempotency_key(f"{order_id}-{document.name}")}"'}
    files = [("documents", (document.name, document.read_bytes()))]
    added = send("POST", f"/api/order/{order_id}/signed-documents", 201, key, files=files).json()
    # The documents first: a signed order without them would be a question for the client.
    send("PATCH", f"/api/order/{order_id}", 200, json={"order_status": "SIGNED"})
    return added["signed_documents_uploaded"]


def main() -> None:
    if not os.environ.get("ORDER_ID"):
        sys.exit("set ORDER_ID")
    order_id = int(os.environ["ORDER_ID"])
    document = Path(os.environ.get("SIGNED_DOCUMENT", Path(__file__).parent / "deed-of-trust.pdf"))
    print("returned", order_id, return_signed(order_id, document))


if __name__ == "__main__":
    run(main)
