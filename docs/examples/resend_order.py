"""The side of the client at each change: sends the whole order again under its file number, and then the
documents that the order has never had. The service creates the order or amends it. Run it as often as you
like, and several at once: there is one order, with each document once.

Needs create_orders.py beside it. Settings: BASE_URL, API_KEY, FILE_NUMBER, SIGNING_DATE (YYYY-MM-DD),
DOCUMENTS (paths, separated as in PATH; here those of this folder).
"""

import hashlib
import os
import random
import time
import uuid
from pathlib import Path
from urllib.parse import quote

from create_orders import OrderFailed, get, order, run, send

ATTEMPTS = 3


def fresh_key() -> dict:
    """Makes a key for one request and its repeats. The next run makes another one: it may send other data."""
    return {"Idempotency-Key": f'"{uuid.uuid4()}"'}


def resend(file_number: str, signing_date: str) -> int:
    """Creates the order, or amends it. What is left out is removed: send the whole order."""
    changed = order(file_number)
    changed["signingDetailsFormData"]["signingDate"] = signing_date
    path = f"/api/order?file_number={quote(file_number, safe='')}"
    return send("PUT", path, (200, 201), fresh_key(), json=changed).json()["order_id"]


def send_missing(order_id: int, documents: list[Path]) -> None:
    path = f"/api/order/{order_id}"
    lost = 0
    while True:
        found = get(path)
        uploaded = found.json()["documents"]
        # Also replaced and withdrawn ones: a document that a user has withdrawn must not come back.
        known = {document["sha256"] for document in uploaded}
        missing = [it for it in documents if hashlib.sha256(it.read_bytes()).hexdigest() not in known]
        if not missing:
            return
        document = missing[0]
        # A current document of the same name is an older version of this one.
        older = [
            it["position"] for it in uploaded
            if it["name_as_sent"] == document.name and it["replaced_by"] is None and it["withdrawn_at"] is None
        ]
        form = {"replaces": str(older[0])} if older else {}
        files = [("documents", (document.name, document.read_bytes()))]
        # Adds to the version that was read: another run may send the same document.
        headers = {"If-Match": found.headers["ETag"], **fresh_key()}
        try:
            send("POST", f"{path}/documents", 201, headers, data=form, files=files)
        except OrderFailed as failure:
            if failure.code != "precondition_failed":
                raise
            lost += 1
            if lost == ATTEMPTS:
                raise OrderFailed(
                    f"gave up on order {order_id} after {ATTEMPTS} answers 412: another program keeps "
                    f"changing it, or a proxy changes ETag or If-Match"
                ) from failure
            time.sleep(random.uniform(0.5, 1.0))
        else:
            print("replaced" if older else "added", document.name, flush=True)


def main() -> None:
    file_number = os.environ.get("FILE_NUMBER", "REFI-2026-100-1")
    signing_date = os.environ.get("SIGNING_DATE", "2026-12-02")
    folder = Path(__file__).parent
    ours = [str(folder / "deed-of-trust.pdf"), str(folder / "signing-instructions.docx")]
    documents = os.environ.get("DOCUMENTS", os.pathsep.join(ours)).split(os.pathsep)
    order_id = resend(file_number, signing_date)
    print("sent", order_id, signing_date, flush=True)
    send_missing(order_id, [Path(document) for document in documents])


if __name__ == "__main__":
    run(main)
