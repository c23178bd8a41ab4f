"""What the scripts of object stores share: a bucket, large documents, and figures of uploads."""

import hashlib
import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .figures import Figures
from .load import Connection, Load, Order
from .processes import Machine, Process, wait_until
from .service import Service

MIB = 1024 * 1024
# Orders with documents that must be acknowledged while a server is away, and after its return.
UPLOADS_WITHOUT_SERVER, UPLOADS_AFTER_RETURN = 100, 50
# Limit for the longest time without an order with documents when a server is killed, in seconds.
KILL_LIMIT = 30.0
GATEWAY_AWAY = 5.0
# Seconds between two large documents.
LARGE_PAUSE = 2.0
READ_TIMEOUT = 60.0


class Cluster(Protocol):
    """An object store with a gateway."""

    gateway: Process

    def start_gateway(self) -> Process: ...


def create_bucket(machine: Machine, endpoint: str, bucket: str, credentials: str) -> None:
    """Creates a bucket over the S3 protocol. The credentials are `KEY:SECRET`."""
    # Ceph requires the hash of the body, which is empty.
    empty = hashlib.sha256().hexdigest()
    machine.run("curl", "--silent", "--show-error", "--fail-with-body", "--request", "PUT",
                "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", credentials,
                "--header", f"x-amz-content-sha256: {empty}", f"{endpoint}/{bucket}")


def lose_server(load: Load, figures: Figures, what: str, take: Callable[[], None],
                give_back: Callable[[], None], at_most: float) -> None:
    """Takes a server away under load, and gives it back after further uploads. Adds the longest
    time without an acknowledged order with documents, and the attempts that failed."""
    before, fault = sum(load.failures.values()), time.monotonic()
    take()
    wait_for_uploads(load, UPLOADS_WITHOUT_SERVER)
    gap = longest_upload_gap(load, fault)
    figures.add(f"{what}: longest time without an order with documents", gap, "s", at_most=at_most)
    failures = sum(load.failures.values()) - before
    figures.add(f"{what}: attempts that failed", failures)
    print(f"{what}: {gap:.1f} s without an order with documents, {failures} failures", flush=True)
    give_back()
    wait_for_uploads(load, UPLOADS_AFTER_RETURN)


def lose_gateway(load: Load, figures: Figures, cluster: Cluster) -> None:
    """Takes the gateway away under load for a while. Adds the longest time without an acknowledged
    order with documents."""
    fault = time.monotonic()
    cluster.gateway.kill()
    time.sleep(GATEWAY_AWAY)
    cluster.gateway = cluster.start_gateway()
    wait_for_uploads(load, UPLOADS_AFTER_RETURN)
    figures.add("gateway killed and started: longest time without an order with documents",
                longest_upload_gap(load, fault), "s", at_most=KILL_LIMIT)


def lose_service(load: Load, service: Service) -> None:
    """Kills the service under load, and starts it again."""
    service.process.kill()
    service.start()
    wait_for_uploads(load, UPLOADS_AFTER_RETURN)


def wait_for_uploads(load: Load, more: int) -> None:
    """Waits until this many further orders with documents are acknowledged."""
    goal = len(_uploads(load)) + more
    wait_until(f"{more} more orders with documents", lambda: len(_uploads(load)) >= goal, 180.0)


def longest_upload_gap(load: Load, since: float) -> float:
    """Returns the longest time since then without an acknowledged order with documents."""
    times = _uploads(load)
    points = [since, *(at for at in times if at > since), time.monotonic()]
    return max(later - earlier for earlier, later in zip(points, points[1:]))


def _uploads(load: Load) -> list[float]:
    """Returns when orders with documents were acknowledged. Only even numbers have documents."""
    return sorted(order.at for order in list(load.acknowledged) if order.number % 2 == 0)


class LargeOrder(Order):
    """An order with one document that a bucket gets in several parts."""

    @property
    def file_number(self) -> str:
        return f"L-{self.number}"

    @property
    def contact(self) -> str:
        return f"large-{self.number}@title.example.com"

    @property
    def key(self) -> str:
        return f'"topology-large-{self.number:020}"'

    def documents(self) -> list[bytes]:
        dice = random.Random(self.number)
        size = dice.randrange(5 * MIB + 1, 9 * MIB)
        return [b"%PDF-1.7\n" + dice.randbytes(size) + b"\n%%EOF\n"]


@dataclass(frozen=True)
class _Uploaded:
    order: LargeOrder
    order_id: int


class LargeDocuments:
    """A client that uploads large documents, one after the other, and repeats each until it is
    acknowledged. It needs a key of its own, so that the audit of another load does not meet it."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key
        self._uploaded: list[_Uploaded] = []
        self.failures = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._client, daemon=True)

    def start(self) -> "LargeDocuments":
        self._thread.start()
        return self

    def stop(self) -> None:
        """Begins no new upload, and waits for the one in progress."""
        self._stopped.set()
        self._thread.join(READ_TIMEOUT)

    def add_to(self, figures: Figures) -> None:
        """Downloads every acknowledged document, and adds what is wrong."""
        connection = Connection(self._url, self._key)
        damaged = [uploaded.order.file_number for uploaded in self._uploaded
                   if not self._is_whole(connection, uploaded)]
        connection.close()
        figures.add("documents of 5 to 9 MiB downloaded and compared", len(self._uploaded),
                    at_least=1)
        figures.add("attempts that failed with them", self.failures)
        figures.add("of them damaged or missing", len(damaged), at_most=0)

    def _client(self) -> None:
        connection, number = Connection(self._url, self._key), 0
        while not self._stopped.wait(LARGE_PAUSE):
            number += 1
            order = LargeOrder(number)
            path, content_type, body = order.request()
            headers = {"Content-Type": content_type, "Idempotency-Key": order.key}
            while not (answer := self._try(connection, "POST", path, body, headers, 201)):
                self.failures += 1
                time.sleep(0.5)
            self._uploaded.append(_Uploaded(order, json.loads(answer)["order_id"]))
        connection.close()

    def _is_whole(self, connection: Connection, uploaded: _Uploaded) -> bool:
        def read(path: str) -> bytes:
            return wait_until(path, lambda: self._try(connection, "GET", path), READ_TIMEOUT)

        try:
            record = json.loads(read(f"/api/order/{uploaded.order_id}"))
            found = [hashlib.sha256(read(document["url"])).hexdigest()
                     for document in record["documents"]]
        except TimeoutError:
            return False
        return found == uploaded.order.digests()

    @staticmethod
    def _try(connection: Connection, method: str, path: str, body: bytes | None = None,
             headers: dict[str, str] | None = None, expected: int = 200) -> bytes | None:
        """Returns the body of the expected answer, and nothing for any other outcome."""
        try:
            status, _, answer = connection.call(method, path, body, headers)
        except (OSError, http.client.HTTPException):
            return None
        return answer if status == expected else None
