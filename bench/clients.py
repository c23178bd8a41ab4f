"""The clients: wrk, and for what wrk cannot do, threads of this script."""

import http.client
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from machine import client_cpu

HERE = pathlib.Path(__file__).resolve().parent
ORDER = {
    "signingContactsFormData": {
        "orderContactEmail": "escrow@title.example.com", "observer": "loans@bank.example.com",
        "inHouseContact": {"contact_email": "house@title.example.com"},
    },
    "signingDetailsFormData": {
        "fileNumber": "{{NUMBER}}", "signingDate": "2026-12-01", "signingTimeType": "at",
        "specificTime": "14:30", "timeZoneId": "America/Chicago",
        "propertyAddress": "123 Main St, Dallas, TX 75201", "city": "Dallas", "state": "TX",
        "zipcode": "75201", "signingType": "Refinance", "signerName": "Jane Doe",
        "signerPhone": "+1 555 010 0199", "signerEmail": "jane.doe@example.com",
    },
    "signingServiceId": 42,
    "requestedBy": {"userId": 1001},
}
RUNS = itertools.count(1)
SLOW_PIECE = 65536


def head(method, path, lines="", body=b""):
    """Returns a request with placeholders. A number has 16 digits."""
    length = len(body) + 6 * body.count(b"{{NUMBER}}")
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {{{{KEY}}}}\r\n"
            f"{lines}Content-Length: {length}\r\n\r\n").encode() + body


def order_request(contacts=None):
    """Returns the request for an order with three mail recipients, or with these. A test key causes
    no mails."""
    order = ORDER | ({"signingContactsFormData": contacts} if contacts else {})
    body = json.dumps(order, separators=(",", ":")).encode()
    return head("POST", "/api/order/create", "Content-Type: application/json\r\n", body)


def change_request():
    """Returns the request that assigns another notary to a random order."""
    return head("PATCH", "/api/order/{{NUMBER}}", "Content-Type: application/json\r\n",
                b'{"notary_id":{{COUNT}}}')


def document(size):
    """Returns an incompressible PDF without placeholders."""
    return b"%PDF-1.7\n" + os.urandom(size - 9).replace(b"{", b"-")


def form_request(documents, content):
    """Returns an order with copies of a document."""
    parts = []
    for name, value in ORDER.items():
        parts.append(f'Content-Disposition: form-data; name="{name}"\r\n\r\n'.encode()
                     + json.dumps(value).encode())
    for number in range(documents):
        parts.append(f'Content-Disposition: form-data; name="documents"; '
                     f'filename="{number:02}.pdf"\r\n\r\n'.encode() + content)
    body = b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"
    return head("POST", "/api/order/create-with-documents",
                "Content-Type: multipart/form-data; boundary=b\r\n", body)


@dataclass
class Sample:
    """What a load did in its time."""

    count: int
    seconds: float
    p50: float = 0
    p99: float = 0
    server_cpu: float = 0
    client_cpu: float = 0

    @property
    def rate(self):
        return self.count / self.seconds

    def cpu_of(self, amount):
        """Returns the processor seconds of the server for this amount of what was counted."""
        return self.server_cpu / self.count * amount


def wrk(server, request, seconds, connections, identifiers=0, keys=None):
    """Sends a request over and over. Each connection waits for the answer before the next."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(request)
        file.flush()
        server_before, client_before = server.process.cpu(), client_cpu()
        output = subprocess.run(
            ["wrk", f"-t{min(2, connections)}", f"-c{connections}", f"-d{seconds}s",
             "--timeout=60s", "-s", HERE / "requests.lua", f"http://{server.api}/", "--", file.name,
             ",".join(keys or server.keys), str(next(RUNS)), str(identifiers)],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        result = re.search(r"RESULT (.*)", output)[1].split()
        if int(result[4]):
            raise SystemExit(f"{result[4]} failed requests:\n{output}")
        return Sample(int(result[0]), int(result[1]) / 1e6, float(result[2]), float(result[3]),
                      server.process.cpu() - server_before, client_cpu() - client_before)


def create(server, request, seconds, warmup):
    """Measures orders after a warm-up, and compares their number with the rows of the database."""
    connections = 64
    first = wrk(server, request, warmup, connections)
    sample = wrk(server, request, seconds, connections)
    acknowledged, stored = first.count + sample.count, server.orders()
    # Requests in progress at the end of a run may have been carried out.
    if not acknowledged <= stored <= acknowledged + 2 * connections:
        raise SystemExit(f"{acknowledged} orders were acknowledged, {stored} are stored")
    return sample


def change(server, request, seconds, warmup):
    """Measures changes of orders of a warm-up, and compares their number with the history."""
    connections, keys = 64, [server.issue("service", "--for-service=42")]
    # Enough orders for short histories, each with one mail.
    one_mail = order_request({"orderContactEmail": "escrow@title.example.com"})
    orders = wrk(server, one_mail, 2, connections).count
    while server.mails_pending():
        time.sleep(0.1)
    first = wrk(server, request, warmup, connections, orders, keys)
    sample = wrk(server, request, seconds, connections, orders, keys)
    acknowledged, stored = first.count + sample.count, server.rows("order_changes")
    if not acknowledged <= stored <= acknowledged + 2 * connections:
        raise SystemExit(f"{acknowledged} changes were acknowledged, {stored} are stored")
    return sample


def in_threads(count, work):
    """Runs the work in threads. An error in one of them ends the measurement."""
    errors = []

    def one(number):
        try:
            work(number)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()

    def join():
        for thread in threads:
            thread.join()
        if errors:
            raise SystemExit(f"a client failed: {errors[0]!r}")

    return join


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def paced(server, rate, seconds, connections=32):
    """Creates orders at a rate. Returns a function that waits for the end and returns the times in
    milliseconds. They count from the moment when an order was due, so delays count."""
    body = json.dumps(ORDER)
    run, times, numbers = next(RUNS), [], itertools.count()
    started = time.monotonic()

    def work(_):
        connection = http.client.HTTPConnection(server.api, timeout=60)
        headers = {"Authorization": f"Bearer {server.keys[0]}", "Content-Type": "application/json"}
        while (number := next(numbers)) < rate * seconds:
            due = started + number / rate
            time.sleep(max(0, due - time.monotonic()))
            text = body.replace("{{NUMBER}}", f"P-{run}-{number}")
            connection.request("POST", "/api/order/create", text, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 201:
                raise RuntimeError(f"{answer.status} for an order")
            times.append((time.monotonic() - due) * 1000)

    join = in_threads(connections, work)

    def finish():
        join()
        return times

    return finish


def connect(server):
    host, port = server.api.split(":")
    connection = socket.create_connection((host, int(port)), timeout=300)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def upload(server, request, number, connection, pause=0.0):
    """Sends an order with documents, in pieces with pauses if there is one. wrk would copy the
    documents several times, and take more of the processors than the service."""
    key = server.keys[hash(connection) % len(server.keys)].encode()
    first, rest = request.replace(b"{{KEY}}", key, 1).split(b"{{NUMBER}}", 1)
    connection.sendall(first + f"{number:016}".encode())
    rest = memoryview(rest)
    for at in range(0, len(rest), SLOW_PIECE) if pause else ():
        connection.sendall(rest[at:at + SLOW_PIECE])
        time.sleep(pause)
    if not pause:
        connection.sendall(rest)
    answer = connection.recv(65536)
    if b" 201 " not in answer[:20]:
        raise RuntimeError(answer.decode())
    return 1


def uploads(server, request, seconds, warmup, connections):
    """Measures orders with documents, and compares their number as `create` does."""
    numbers = itertools.count(1)
    sample, acknowledged = closed_loop(
        server, connections, warmup, seconds,
        lambda connection: upload(server, request, next(numbers), connection))
    if server.orders() != acknowledged:
        raise SystemExit(f"{acknowledged} orders were acknowledged, {server.orders()} are stored")
    return sample


def slow_uploads(server, request, count, pause):
    """Sends an order with documents over each connection. Returns a function that waits for all
    answers."""

    def work(number):
        with connect(server) as connection:
            upload(server, request, number, connection, pause)

    return in_threads(count, work)


def downloads(server, path, size, seconds, warmup, connections=8):
    """Downloads a file over and over with reads of 256 KiB; those of wrk have 8 KiB."""
    key = server.keys[0] if server.keys else ""
    request = head("GET", path).replace(b"{{KEY}}", key.encode())

    def download(connection):
        buffer = bytearray(256 * 1024)
        connection.sendall(request)
        count = connection.recv_into(buffer)
        start = buffer.find(b"\r\n\r\n", 0, count) + 4
        if b" 200 " not in buffer[:20] or start < 4:
            raise RuntimeError(buffer[:count])
        left = size - (count - start)
        while left > 0:
            count = connection.recv_into(buffer, min(left, len(buffer)))
            if count == 0:
                raise RuntimeError("a download ended too early")
            left -= count
        return size

    return closed_loop(server, connections, warmup, seconds, download)[0]


def closed_loop(server, connections, warmup, seconds, exchange):
    """Repeats an exchange over each connection. Returns the sample of what the exchanges return,
    after the warm-up, and the sum of all."""
    done, stopped = [], threading.Event()

    def work(_):
        with connect(server) as connection:
            while not stopped.is_set():
                done.append(exchange(connection))

    def now():
        return sum(done), time.monotonic(), server.process.cpu(), client_cpu()

    join = in_threads(connections, work)
    time.sleep(warmup)
    before = now()
    time.sleep(seconds)
    count, time_taken, server_cpu, own_cpu = (b - a for a, b in zip(before, now()))
    stopped.set()
    join()
    sample = Sample(count, time_taken, server_cpu=server_cpu, client_cpu=own_cpu)
    return sample, sum(done)
