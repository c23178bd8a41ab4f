"""Connections that are held open: what they send, and the memory that they take."""

import resource
import selectors
import socket
import time

import clients

SECONDS = 8  # Longer than a body waits for its permit.


def kinds(service):
    """Returns what each kind of connection sends, without an end. A wrong key has the right form."""
    key, wrong = service.keys[0], "nok_" + "0" * 16 + "_" + "0" * 48

    def request(path, of, lines, body):
        return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {of}\r\n"
                f"{lines}\r\n").encode() + body

    def json(of):
        return request("/api/order/create", of, "Content-Type: application/json\r\n"
                       "Content-Length: 262000\r\n", b" " * 260_000)

    def form(*names):
        body = b"".join(b'--b\r\nContent-Disposition: form-data; name="' + name.encode()
                        + b'"\r\n\r\n{"userId":"' + b"x" * 249_980 + b'"}\r\n' for name in names)
        return request("/api/order/create-with-documents", key, "Content-Type: multipart/form-data; "
                       "boundary=b\r\nContent-Length: 2000000\r\n", body)

    whole = b"{" + b" " * 260_000 + b"}"
    listed = (f"GET /api/order?limit=100 HTTP/1.1\r\nHost: localhost\r\n"
              f"Authorization: Bearer {key}\r\n\r\n").encode()
    begun = b"GET /api/key HTTP/1.1\r\nHost: localhost\r\nX: "
    return {
        "idle": b"",
        "heads of 120 KB": begun + b"x" * 120_000,
        "heads of 15 KB": begun + b"x" * 15_000,
        "JSON bodies of 260 KB": json(key),
        "JSON bodies of 260 KB, wrong key": json(wrong),
        # Their order is not valid.
        "answered JSON bodies of 260 KB": request(
            "/api/order/create", key, "Content-Type: application/json\r\n"
            f"Content-Length: {len(whole)}\r\n", whole),
        "forms of seven parts of 250 KB": form("requestedBy", *(f"own{at}" for at in range(6))),
        # The second part has the name of the first.
        "rejected forms of seven parts of 250 KB": form(*["requestedBy"] * 7),
        "unread lists of 100 orders": listed,
    }


def fill(service, orders=100):
    """Creates the orders that lists have, each with long texts."""
    request = clients.order_request().replace(b"{{KEY}}", service.keys[0].encode())
    host, port = service.api.split(":")
    with socket.create_connection((host, int(port))) as connection:
        for number in range(orders):
            connection.sendall(request.replace(b"{{NUMBER}}", f"{number:016}".encode()))
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            if b" 201 " not in answer[:20]:
                raise SystemExit(answer.decode())


def peak(service, count, sent):
    """Holds connections open that send this, and returns the most memory over idle in MiB."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, port = service.api.split(":")
    idle = service.process.memory()
    service.process.reset_peak()
    waiting, end = selectors.DefaultSelector(), time.monotonic() + SECONDS
    held = []
    try:
        for _ in range(count):
            connection = socket.socket()
            # An answer stays with the service.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            connection.setblocking(False)
            held.append(connection)
            if sent:
                waiting.register(connection, selectors.EVENT_WRITE, memoryview(sent))
        while time.monotonic() < end:
            if not waiting.get_map():
                time.sleep(0.1)
                continue
            for ready, _ in waiting.select(0.1):
                try:
                    rest = ready.data[ready.fileobj.send(ready.data):]
                except OSError:
                    rest = b""  # The service has closed it.
                if rest:
                    waiting.modify(ready.fileobj, selectors.EVENT_WRITE, rest)
                else:
                    waiting.unregister(ready.fileobj)
        return service.process.memory("VmHWM") - idle
    finally:
        for connection in held:
            connection.close()
