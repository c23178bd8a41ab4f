"""A mixed load of careful clients, and a record of every acknowledgement."""

import hashlib
import http.client
import json
import random
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlsplit

# Time limit of a request, and for the last orders to be acknowledged at the end, in seconds.
REQUEST_TIMEOUT = 30.0
SETTLE_TIMEOUT = 120.0
# A client repeats after `Retry-After` and up to this many seconds.
JITTER = 0.25
# One of so many clients of a URL does not wait for `Retry-After`. It stands for orders that have
# just arrived, and tells when the service creates orders again.
IMPATIENT = 4


@dataclass(frozen=True)
class Order:
    """An order whose content follows from its number, so that the audit can check it."""

    number: int

    @property
    def file_number(self) -> str:
        return f"F-{self.number}"

    @property
    def contact(self) -> str:
        """The address that gets the only mail of the order."""
        return f"contact-{self.number}@title.example.com"

    @property
    def key(self) -> str:
        return f'"topology-{self.number:020}"'

    def documents(self) -> list[bytes]:
        """Returns none for odd numbers, otherwise one to four."""
        count = self.number // 2 % 4 + 1 if self.number % 2 == 0 else 0
        return [self._document(position) for position in range(count)]

    def digests(self) -> list[str]:
        return [hashlib.sha256(document).hexdigest() for document in self.documents()]

    def _document(self, position: int) -> bytes:
        dice = random.Random(self.number * 10 + position)
        return b"%PDF-1.7\n" + dice.randbytes(dice.randrange(1_000, 60_000)) + b"\n%%EOF\n"

    def fields(self) -> dict:
        return {
            "signingContactsFormData": {"orderContactEmail": self.contact},
            "signingDetailsFormData": {
                "fileNumber": self.file_number, "signingType": "Refinance",
                "signingDate": "2026-12-01", "signingTimeType": "at", "specificTime": "14:30",
                "timeZoneId": "America/Chicago", "propertyAddress": "123 Main St, Dallas, TX 75201",
                "city": "Dallas", "state": "TX", "zipcode": "75201", "signerName": "Jane Doe",
                "signerPhone": "+1 555 010 0199", "signerEmail": "jane.doe@example.com",
            },
            "signingServiceId": 42,
            "requestedBy": {"userId": 1001, "userRole": "escrow_officer", "signingServiceId": 42},
        }

    def request(self) -> tuple[str, str, bytes]:
        """Returns the path, the content type and the body."""
        documents = self.documents()
        if not documents:
            return "/api/order/create", "application/json", json.dumps(self.fields()).encode()
        boundary = f"boundary-{self.number}"
        body = bytearray()
        for name, value in self.fields().items():
            body += (f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
                     f"{json.dumps(value)}\r\n").encode()
        for position, document in enumerate(documents):
            body += (f'--{boundary}\r\nContent-Disposition: form-data; name="documents"; '
                     f'filename="{position}.pdf"\r\nContent-Type: application/pdf\r\n\r\n').encode()
            body += document + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        return ("/api/order/create-with-documents", f"multipart/form-data; boundary={boundary}",
                bytes(body))


@dataclass(frozen=True)
class Acknowledged:
    number: int
    order_id: int
    url: str
    # Of `time.monotonic()`.
    at: float
    milliseconds: float


class Connection:
    """A kept connection to one URL. Each call is one attempt; no answer raises `OSError` or
    `http.client.HTTPException`."""

    def __init__(self, url: str, key: str, tls: ssl.SSLContext | None = None) -> None:
        self._parts, self._key, self._tls = urlsplit(url), key, tls
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: bytes | None = None,
             headers: dict[str, str] | None = None) -> tuple[int, http.client.HTTPMessage, bytes]:
        if self._connection is None:
            host, port = self._parts.hostname, self._parts.port
            self._connection = (
                http.client.HTTPSConnection(host, port, timeout=REQUEST_TIMEOUT, context=self._tls)
                if self._parts.scheme == "https"
                else http.client.HTTPConnection(host, port, timeout=REQUEST_TIMEOUT))
        try:
            all_headers = {"Authorization": f"Bearer {self._key}", **(headers or {})}
            self._connection.request(method, self._parts.path + path, body, all_headers)
            answer = self._connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None


class Load:
    """Clients that create orders, half of them with documents, and read some of them back.

    Each client keeps to one URL. It repeats an order under its `Idempotency-Key`, most of them
    after `Retry-After`, until the order is acknowledged. So every request has a known outcome.
    """

    def __init__(self, urls: list[str], key: str, clients: int = 8, pause: float = 0.02,
                 tls: ssl.SSLContext | None = None, first: int = 1) -> None:
        self.urls, self.key, self.tls, self._pause = urls, key, tls, pause
        # Orders have consecutive numbers. Two loads on one database need numbers of their own.
        self._first = self._next = first
        self.acknowledged: list[Acknowledged] = []
        # Statuses of attempts other than 201; "no answer" is one of them.
        self.failures: Counter[str] = Counter()
        self.reads = 0
        # Answers that no careful client should get, such as a 4xx or a wrong document.
        self.faults: list[str] = []
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._deadline = float("inf")
        self._threads = [
            threading.Thread(target=self._client, daemon=True,
                             args=(urls[at % len(urls)], at // len(urls) % IMPATIENT == 0))
            for at in range(clients)]

    def start(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Begins no new order, and waits until each one in progress is acknowledged."""
        self._deadline = time.monotonic() + SETTLE_TIMEOUT
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def requested(self) -> range:
        """The numbers of the orders that clients requested."""
        return range(self._first, self._next)

    def count(self, since: float = 0.0, url: str | None = None) -> int:
        return len(self._times(since, url))

    def wait_for(self, more: int, timeout: float = 120.0) -> None:
        """Waits until this many further orders are acknowledged."""
        goal, deadline = len(self.acknowledged) + more, time.monotonic() + timeout
        while len(self.acknowledged) < goal:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{more} more orders are not acknowledged within {timeout:.0f} s: "
                    f"{dict(self.failures)} {self.faults[:3]}")
            time.sleep(0.02)

    def longest_gap(self, since: float, until: float | None = None,
                    url: str | None = None) -> float:
        """Returns the longest time in seconds without an acknowledged order, of gaps that end after
        `since`. Counts the gap from the last order before, and the one that lasts until the end."""
        until = time.monotonic() if until is None else until
        times = [at for at in self._times(0.0, url) if at <= until]
        before = [at for at in times if at <= since]
        points = [before[-1] if before else since, *(at for at in times if at > since), until]
        return max(later - earlier for earlier, later in zip(points, points[1:]))

    def _times(self, since: float, url: str | None) -> list[float]:
        with self._lock:
            return sorted(order.at for order in self.acknowledged
                          if order.at >= since and url in (None, order.url))

    def _client(self, url: str, is_impatient: bool) -> None:
        connection, dice = Connection(url, self.key, self.tls), random.Random()
        try:
            while not self._stopped.is_set():
                with self._lock:
                    order = Order(self._next)
                    self._next += 1
                order_id = self._create(connection, order, url, is_impatient, dice)
                if order_id is not None and dice.random() < 0.2:
                    self._read(connection, order, order_id)
                time.sleep(dice.uniform(0.0, 2 * self._pause))
        except Exception as error:  # A client that ends must not look like a quiet one.
            self._fault(f"a client ended: {error!r}")
            raise
        finally:
            connection.close()

    def _create(self, connection: Connection, order: Order, url: str, is_impatient: bool,
                dice: random.Random) -> int | None:
        path, content_type, body = order.request()
        headers = {"Content-Type": content_type, "Idempotency-Key": order.key}
        while time.monotonic() < self._deadline:
            begin, retry_after = time.monotonic(), 0.0
            try:
                status, answer_headers, answer = connection.call("POST", path, body, headers)
            except (OSError, http.client.HTTPException):
                self._failed("no answer")
            else:
                if status == 201:
                    record, at = json.loads(answer), time.monotonic()
                    with self._lock:
                        self.acknowledged.append(Acknowledged(
                            order.number, record["order_id"], url, at, (at - begin) * 1000))
                    if record["file_number"] != order.file_number:
                        self._fault(f"{order.file_number} got the answer {record['file_number']}")
                    return record["order_id"]
                code = _code(answer)
                self._failed(f"{status} {code}".strip())
                if status < 500 and status != 429 and code != "idempotency_in_flight":
                    self._fault(f"{order.file_number}: {status} {answer[:300]!r}")
                    return None
                seconds = answer_headers.get("Retry-After", "")
                if seconds.isdecimal() and not is_impatient:
                    retry_after = float(seconds)
            time.sleep(retry_after + dice.uniform(0.02, JITTER))
        self._fault(f"{order.file_number} is not acknowledged after {SETTLE_TIMEOUT:.0f} s")
        return None

    def _read(self, connection: Connection, order: Order, order_id: int) -> None:
        try:
            status, _, answer = connection.call("GET", f"/api/order/{order_id}")
        except (OSError, http.client.HTTPException):
            return self._failed("read: no answer")
        if status != 200:
            self._failed(f"read: {status} {_code(answer)}".strip())
            if status < 500:
                self._fault(f"reading the acknowledged order {order_id}: {status}")
            return None
        self.reads += 1
        record = json.loads(answer)
        stored = [document["sha256"] for document in record["documents"]]
        if record["file_number"] != order.file_number or stored != order.digests():
            self._fault(f"order {order_id} reads back as {answer[:300]!r}")
        return None

    def _failed(self, what: str) -> None:
        with self._lock:
            self.failures[what] += 1

    def _fault(self, what: str) -> None:
        with self._lock:
            self.faults.append(what)


def _code(answer: bytes) -> str:
    """Returns the code of a problem; nothing if a proxy answered instead of the service."""
    try:
        return json.loads(answer).get("code", "")
    except (ValueError, AttributeError):
        return ""
