"""Receives webhooks: verifies each one, and handles each event once.

Needs Python 3.11 and no package. Settings: WEBHOOK_SECRET (whsec_...), PORT, STATE_DIR (folder of
the identifiers of handled events). It listens on this machine; a proxy in front of it serves HTTPS.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOLERANCE = 300  # seconds between the clocks of both sides, and for the way
LONGEST_BODY = 64 * 1024


def is_genuine(secret: bytes, headers, body: bytes) -> bool:
    """Checks the signature over the bytes of the body as they came, before anything reads them."""
    event_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    # An old webhook may be one that was overheard and is sent again.
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    signed = f"{event_id}.{timestamp}.".encode() + body
    expected = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    # There are two while the secret is being rotated.
    signatures = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(f"v1,{expected}".encode(), one.encode()) for one in signatures)


def handle_once(event_id: str, body: bytes) -> None:
    """An event may arrive again, and events may arrive in any order. Your product stores the
    identifier in the transaction that does the work, in a unique column."""
    handled = Path(os.environ.get("STATE_DIR", "."), hashlib.sha256(event_id.encode()).hexdigest())
    if not handled.exists():
        handle(json.loads(body))
        handled.touch()


def handle(event: dict) -> None:
    """Takes little time: the service waits 15 seconds. Queue what takes longer. Ignore types that
    you do not know: there may be more of them one day."""
    if event["type"].startswith("order."):
        # An erased order has no status.
        status = [event["data"]["order_status"]] if "order_status" in event["data"] else []
        print(event["type"], event["data"]["order_id"], *status, flush=True)
    else:
        print(event["type"], flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 15
    secret: bytes

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            self.close_connection = True  # the body stays unread
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_genuine(self.secret, self.headers, body):
            return self.answer(401)
        handle_once(self.headers["webhook-id"], body)
        # Only now: the service repeats a webhook that gets no 2xx.
        self.answer(204)

    def answer(self, status: int):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    secret = os.environ.get("WEBHOOK_SECRET") or sys.exit("set WEBHOOK_SECRET")
    Receiver.secret = base64.b64decode(secret.removeprefix("whsec_"))
    address = ("127.0.0.1", int(os.environ.get("PORT", "9000")))
    ThreadingHTTPServer(address, Receiver).serve_forever()


main()
