#!/usr/bin/env python3
"""Stores a small database of a release with its documents, so that later versions are tested on it.

Usage: store_fixture.py PROGRAM FOLDER [DATABASE_URL]

Runs PROGRAM (the released binary) on an empty embedded database, or on the empty PostgreSQL database at
DATABASE_URL, drives it over HTTP, stops it and writes to FOLDER: `data/` (SQLite, documents) or `data/`
(documents) with `dump.sql` and its rows alone in `rows.sql`, and `expected.json`: the keys, and what the release answered. Everything in it is
invented.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

PROGRAM, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
DATABASE_URL = sys.argv[3] if len(sys.argv) > 3 else None
SECRETS_KEY = base64.b64encode(b"fixture of a released version..!").decode()
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


PORT, OPS, CLOSED = free_port(), free_port(), free_port()
SETTINGS = [
    f"--data-dir={FOLDER / 'data'}", f"--listen=127.0.0.1:{PORT}", f"--ops-listen=127.0.0.1:{OPS}",
    f"--secrets-key={SECRETS_KEY}", "--webhook-allow=127.0.0.1",
] + ([f"--database-url={DATABASE_URL}"] if DATABASE_URL else [])


def command(*arguments: str) -> str:
    ran = subprocess.run([PROGRAM, *arguments, *SETTINGS], capture_output=True, text=True, env={})
    if ran.returncode != 0:
        sys.exit(f"{arguments}: {ran.stderr}")
    return ran.stdout.strip()


class Service:
    """The program, with further settings, until the end of the block."""

    def __init__(self, *settings: str):
        self.settings = settings

    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM, *SETTINGS, *self.settings], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={})
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{OPS}/readyz").read()
                return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        sys.exit("the service does not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def send(key: str, method: str, path: str, body=None, form=None, headers=None):
    headers = {"Authorization": f"Bearer {key}", **(headers or {})}
    data = None
    if form is not None:
        boundary = uuid.uuid4().hex
        headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
        parts = []
        for name, file, content in form:
            named = f'; filename="{file}"' if file else ""
            parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + content + b"\r\n")
        data = b"".join(parts) + f"--{boundary}--\r\n".encode()
    elif body is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, headers, method=method)
    try:
        answer = urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")
    return json.loads(answer) if answer[:1] in (b"{", b"[") else answer


def order(number: str, **details) -> dict:
    return {
        "signingContactsFormData": {"orderContactEmail": "escrow@title.example.com", "observer": "observer@title.example.com"},
        "signingDetailsFormData": {
            "fileNumber": number, "signingType": "Refinance", "signingDate": "2026-12-01", "signingTimeType": "at",
            "specificTime": "14:30", "timeZoneId": "America/Chicago", "propertyAddress": "123 Main St", "city": "Dallas",
            "state": "TX", "zipcode": "75201", "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com", **details,
        },
        "signingServiceId": 42,
        "requestedBy": {"userId": 1001, "userRole": "escrow", "signingServiceId": 42},
    }


EVERY_FIELD = {
    "signingTimeType": "between", "startTime": "09:00", "endTime": "11:30", "language": "es", "spouseName": "John Doe",
    "coSignerName": "Ann Roe", "coSignerSpouseName": "Tom Roe", "coSignerPhone": "(555) 010-0123 x4", "coSignerEmail": "ann@example.com",
    "isPropertyAddressSame": False, "signingAddress": "1 Elm St", "signingCity": "Austin", "signingState": "TX", "signingZipcode": "73301",
    "esigningPlatform": "Pavaso", "scanbacksRequired": True, "ronSigning": False, "documentDelivery": "email", "lender": "First Bank",
    "specialInstructions": "Gate code 1234\nRing twice", "loanOfficer": {"contact_name": "Lee Park", "contact_email": "lee@bank.example.com", "contact_phone": "+1 555 010 0144"},
    "invoiceOrderTo": {"company_name": "Acme", "invoice_address": "2 Oak St", "city": "Dallas", "state": "TX", "zipcode": "75202"},
    "invoiceName": "Bo", "invoicePhone": "+1 555 010 0166", "invoiceEmail": "bo@acme.example.com", "invoiceFee": 150.5, "notaryPay": 75,
}


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "data").mkdir(parents=True, mode=0o700)
    client = command("keys", "issue", "--name=Acme Title", "--contact=it@title.example.com", "--scope=orders:create", "--scope=orders:read", "--scope=webhooks:manage")
    test = command("keys", "issue", "--name=Acme tests", "--client=1", "--test")
    other = command("keys", "issue", "--name=Other Title")
    service = command("keys", "issue", "--name=Lone Star", "--for-service=42", "--scope=orders:read", "--scope=orders:update", "--scope=webhooks:manage")
    command("services", "add", "42", "--name=Lone Star Signings", "--email=dispatch@signings.example.com")
    orders = []

    def create(number: str, **details) -> str:
        body = order(number, **details)
        answer = send(client, "POST", "/api/order/create", body, headers={"Idempotency-Key": f'"{number}"'})
        orders.append(answer["order_id"])
        return f"/api/order/{answer['order_id']}"

    with Service(f"--mail-url=file://{FOLDER / 'data' / 'mail'}"):
        for status in ["NEW", "ASSIGNED", "CONFIRMED", "ON_HOLD", "SIGNED", "DID_NOT_SIGN", "COMPLETED"]:
            path = create(f"STATUS-{status}")
            if status != "NEW":
                send(service, "PATCH", path, {"order_status": status, "notary_id": 7, "notary": {"name": "Pat Quimby", "phone": "+1 555 010 0177"}})
        send(client, "POST", create("STATUS-CANCELLED") + "/cancel", {"reason": "The lender withdrew"})
        every = create("EVERY-FIELD", **EVERY_FIELD)
        amended = create("AMENDED")
        send(client, "PUT", amended, order("AMENDED", specificTime="16:00", lender="Second Bank", signerName="Jane Roe"))
        for text in ["Bring two pens", "Ünïcödé 合同\nsecond line"]:
            send(client, "POST", amended + "/notes", {"text": text}, headers={"Idempotency-Key": f'"{text[:5].strip()}"'} if text.isascii() else None)
        send(service, "POST", amended + "/notes", {"text": "Done"})
        parts = [(name, None, json.dumps(value).encode() if isinstance(value, dict) else str(value).encode()) for name, value in order("DOCUMENTS").items()]
        files = [("documents", "deed.pdf", PDF), ("documents", "note.pdf", PDF + b"% 2\n")]
        made = send(client, "POST", "/api/order/create-with-documents", form=parts + files)
        orders.append(made["order_id"])
        papers = f"/api/order/{made['order_id']}"
        send(client, "POST", papers + "/documents", form=[("documents", "rider.pdf", PDF + b"% 3\n")])
        send(client, "POST", papers + "/documents", form=[("replaces", None, b"0"), ("documents", "deed v2.pdf", PDF + b"% 4\n")])
        send(client, "DELETE", papers + "/documents/1")
        send(service, "POST", papers + "/signed-documents", form=[("documents", "signed.pdf", PDF + b"% 5\n"), ("documents", "wrong.pdf", PDF + b"% 6\n")])
        send(service, "DELETE", papers + "/signed-documents/1")
        send(service, "GET", papers + "/documents/2")
        held = create("HELD")
        command("orders", "hold", held.rsplit("/", 1)[1], "--until=2099-01-01")
        erased = create("ERASED")
        command("orders", "erase", erased.rsplit("/", 1)[1], "--yes")
        tested = send(test, "POST", "/api/order/create", order("TEST"))
        others = send(other, "POST", "/api/order/create", order("OTHERS"))
        endpoint = send(client, "POST", "/api/webhooks", {"url": f"http://127.0.0.1:{CLOSED}/hook", "description": "waits"})
        disabled = send(service, "POST", "/api/webhooks", {"url": f"http://127.0.0.1:{CLOSED}/of-service", "events": ["order.created"]})
        send(service, "PATCH", f"/api/webhooks/{disabled['id']}", {"status": "disabled"})
        # Mails and downloads of this part are stored before the stop.
        time.sleep(4)
    with Service(f"--mail-url=smtp://127.0.0.1:{CLOSED}"):
        waiting = create("WAITING")
        time.sleep(4)
        reads = {}
        for key, paths in [(client, orders), (test, [tested["order_id"]]), (other, [others["order_id"]])]:
            for one in paths:
                if f"/api/order/{one}" != erased:
                    path = f"/api/order/{one}"
                    reads[path] = {"key": key, "order": send(key, "GET", path)}
                    history = send(key, "GET", f"{path}/history?limit=100")
                    reads[path]["history"] = history["data"]
        of_service = send(service, "GET", f"{papers}")
        webhooks = send(client, "GET", f"/api/webhooks/{endpoint['id']}/deliveries")["data"]
        time.sleep(2)
    listed = [json.loads(line)["id"] for line in command("deliveries", "list", "--json").splitlines()]
    accesses = len(command("orders", "accesses", papers.rsplit("/", 1)[1]).splitlines()) - 1
    at = max(entry["order"]["updated_at"] for entry in reads.values())
    for left in ["spool", "mail", "first-key"]:
        path = FOLDER / "data" / left
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    expected = {
        "version": command("--version").split()[1], "at": at, "secrets_key": SECRETS_KEY, "client_key": client, "service_key": service,
        "every": every, "papers": papers, "held": held, "erased": erased, "waiting": waiting, "reads": reads, "of_service": of_service,
        "endpoint": endpoint["id"], "endpoint_url": endpoint["url"], "endpoint_secret": endpoint["secret"], "webhooks": len(webhooks), "waiting_mails": sum(not one.startswith("w") for one in listed),
        "accesses": accesses, "documents": {"documents/0": PDF.decode(), "documents/2": (PDF + b"% 3\n").decode(), "documents/3": (PDF + b"% 4\n").decode(), "signed-documents/0": (PDF + b"% 5\n").decode()},
    }
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    if DATABASE_URL:
        rows = ["--data-only", "--exclude-table=__diesel_schema_migrations", "--exclude-table=later_migrations"]
        for name, more in [("dump.sql", []), ("rows.sql", rows)]:
            dump = ["pg_dump", "--no-owner", "--no-privileges", "--column-inserts", *more, DATABASE_URL]
            text = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
            # Other versions of PostgreSQL do not know these.
            lines = [line for line in text.splitlines() if not line.startswith(("SET transaction_timeout", "\\restrict", "\\unrestrict"))]
            (FOLDER / name).write_text("\n".join(lines) + "\n")
    else:
        import sqlite3

        with sqlite3.connect(FOLDER / "data" / "notary-orders.sqlite") as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ["-wal", "-shm"]:
            (FOLDER / "data" / f"notary-orders.sqlite{suffix}").unlink(missing_ok=True)


main()
