"""The crash audit: compares what the service stores with what the clients were told."""

import hashlib
import http.client
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .load import Connection, Load, Order

# Time limit for the delivery of the last mails, and of one read that is repeated, in seconds.
MAIL_TIMEOUT = 300.0
READ_TIMEOUT = 60.0

Mails = Callable[[], Counter]


def mail_drop(*folders: Path) -> Mails:
    """Returns a function that counts the mails of each address in the folders."""
    seen: dict[Path, str] = {}

    def count() -> Counter:
        for folder in folders:
            for mail in folder.glob("*.eml"):
                if mail not in seen:
                    to = re.search(rb"^To: <?([^>\r\n]+)>?", mail.read_bytes(), re.MULTILINE)
                    seen[mail] = to[1].decode() if to else ""
        return Counter(seen.values())

    return count


@dataclass
class Audit:
    """What the service stores after a load, read through its API, and what is wrong with it."""

    orders: int = 0
    documents: int = 0
    mails: int = 0
    # Mails that were delivered more than once, which is allowed.
    repeated_mails: int = 0
    # File numbers of orders that were acknowledged and are missing.
    lost: list[str] = field(default_factory=list)
    # File numbers that more than one order has, or that were acknowledged as several orders.
    twice: list[str] = field(default_factory=list)
    # File numbers that no client requested.
    unexpected: list[str] = field(default_factory=list)
    # Orders without all of their documents, or with a document that differs.
    incomplete: list[str] = field(default_factory=list)
    without_mail: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, load: Load, mails: Mails | None = None, url: str | None = None) -> "Audit":
        """Checks all orders of a load that has stopped. Waits for the mails if there is a sink."""
        audit = cls()
        url = url or load.urls[0]
        stored = audit._list(load, url)
        audit._check_orders(load, stored)
        audit._check_documents(load, stored, url)
        if mails:
            audit._check_mails(stored, mails)
        return audit

    def problems(self) -> list[str]:
        """Returns a line for each kind of loss."""
        kinds = ("lost", "twice", "unexpected", "incomplete", "without_mail")
        return [f"{kind.replace('_', ' ')}: {', '.join(found[:10])} ({len(found)})"
                for kind in kinds if (found := getattr(self, kind))]

    def _list(self, load: Load, url: str) -> dict[str, list[int]]:
        """Returns the identifiers of all stored orders by their file number."""
        stored: dict[str, list[int]] = defaultdict(list)
        connection, path = Connection(url, load.key, load.tls), "/api/order?limit=100"
        while True:
            page = json.loads(_get(connection, path))
            for record in page["data"]:
                stored[record["file_number"]].append(record["order_id"])
            if not page["has_more"]:
                break
            path = f"/api/order?limit=100&starting_after={page['data'][-1]['order_id']}"
        connection.close()
        self.orders = sum(map(len, stored.values()))
        return stored

    def _check_orders(self, load: Load, stored: dict[str, list[int]]) -> None:
        told: dict[str, set[int]] = defaultdict(set)
        for order in load.acknowledged:
            told[Order(order.number).file_number].add(order.order_id)
        self.lost = [name for name, ids in told.items() if not ids <= set(stored.get(name, ()))]
        self.twice = [name for name, ids in stored.items()
                      if len(ids) > 1 or len(told[name].union(ids)) > 1]
        requested = {Order(number).file_number for number in load.requested}
        self.unexpected = [name for name in stored if name not in requested]

    def _check_documents(self, load: Load, stored: dict[str, list[int]], url: str) -> None:
        """Downloads every document of every order and compares its SHA-256."""
        names = sorted(set(stored) - set(self.unexpected))

        def check(names: list[str]) -> None:
            connection = Connection(url, load.key, load.tls)
            for name in names:
                expected = Order(int(name.removeprefix("F-"))).digests()
                for order_id in stored[name]:
                    try:
                        record = json.loads(_get(connection, f"/api/order/{order_id}"))
                        found = [
                            hashlib.sha256(_get(connection, document["url"])).hexdigest()
                            for document in record["documents"]]
                    except LookupError:
                        found = None
                    if found != expected:
                        self.incomplete.append(name)
                    self.documents += len(found or ())
            connection.close()

        workers = 4
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(check, [names[at::workers] for at in range(workers)]))

    def _check_mails(self, stored: dict[str, list[int]], mails: Mails) -> None:
        contacts = {Order(int(name.removeprefix("F-"))).contact: name
                    for name in set(stored) - set(self.unexpected)}
        deadline = time.monotonic() + MAIL_TIMEOUT
        while True:
            delivered = mails()
            missing = [name for contact, name in contacts.items() if not delivered[contact]]
            if not missing or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        self.without_mail = missing
        self.mails = sum(delivered[contact] for contact in contacts)
        self.repeated_mails = self.mails - (len(contacts) - len(missing))


def _get(connection: Connection, path: str) -> bytes:
    """Reads a path. Repeats while there is no answer or a 5xx; raises `LookupError` for others."""
    deadline = time.monotonic() + READ_TIMEOUT
    while True:
        try:
            status, _, body = connection.call("GET", path)
            if status == 200:
                return body
            if status < 500:
                raise LookupError(f"{path}: {status}")
            failure = str(status)
        except (OSError, http.client.HTTPException) as error:
            failure = repr(error)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path}: {failure}")
        time.sleep(0.1)
