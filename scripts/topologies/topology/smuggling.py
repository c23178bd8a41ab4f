"""Requests that a proxy and the service may split in different ways.

The forms follow the lists of github.com/defparam/smuggler and
github.com/narfindustries/http-garden. Each hides a request in the body of another one. If both sides agree, the hidden request does not
exist, or it is a request with an answer of its own. If they disagree, the service gets a request
whose answer nobody gets, or an answer goes to the wrong client.
"""

import json
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .load import Order
from .proxies import PORT

# Time for a first answer: the service waits 15 s for a body. After it, for further ones.
TIMEOUT, QUIET = 25.0, 2.0
# All bytes that some parser may skip or take as white space, and some that end a name or a line.
BYTES = [*range(0x00, 0x21), 0x7F, 0x80, 0x85, 0xA0, 0xAD, 0xFF]
CHUNKED = b"Transfer-Encoding: chunked"

# Builds a form from the head of the outer request, without its end, and the hidden request.
Build = Callable[[bytes, bytes], bytes]


@dataclass(frozen=True)
class Form:
    name: str
    build: Build


@dataclass
class Outcome:
    """What the client saw of all forms."""

    forms: int = 0
    # Forms by how they were answered.
    kinds: Counter[str] = field(default_factory=Counter)
    # Answers of the service.
    answers: int = 0
    # File numbers of the hidden orders that were acknowledged.
    acknowledged: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)


def forms() -> list[Form]:
    found = [*_encodings(), *_lengths(), *_chunks(), *_heads()]
    return [Form(f"{number}: {form.name}", form.build) for number, form in enumerate(found)]


def _encodings() -> Iterator[Form]:
    """Variants of `Transfer-Encoding` beside a `Content-Length`: one side may believe either."""
    lines = {
        "plain": CHUNKED, "folded": b"Transfer-Encoding:\r\n chunked", "lf folded":
        b"Transfer-Encoding:\n chunked", "twice": CHUNKED + b"\r\n" + CHUNKED,
        "list": b"Transfer-Encoding: cow, chunked", "list, chunked first":
        b"Transfer-Encoding: chunked, cow", "identity": b"Transfer-Encoding: identity",
        "identity, chunked": b"Transfer-Encoding: identity, chunked",
        "cow, then chunked": b"Transfer-Encoding: cow\r\n" + CHUNKED,
        "chunked, then cow": CHUNKED + b"\r\nTransfer-Encoding: cow",
        "chunked, then empty": CHUNKED + b"\r\nTransfer-Encoding:",
        "quoted": b'Transfer-Encoding: "chunked"', "single quotes": b"Transfer-Encoding: 'chunked'",
        "prefix": b"Transfer-Encoding: chunk", "suffix": b"Transfer-Encoding: chunkedx",
        "comma": b"Transfer-Encoding: chunked,", "leading comma": b"Transfer-Encoding: ,chunked",
        "parameter": b"Transfer-Encoding: chunked;q=1", "mixed case": b"tRANSFER-eNCODING: cHuNkEd",
        "words": b"Transfer-Encoding: cow chunked bar", "underscore": b"Transfer_Encoding: chunked",
        "space in name": b"Transfer Encoding: chunked",
        "cr in name": b"Transfer\r-Encoding: chunked",
        "content encoding": b"Content-Encoding: chunked", "te": b"TE: chunked",
        "hop by hop": CHUNKED + b"\r\nConnection: Transfer-Encoding",
        "hop by hop length": CHUNKED + b"\r\nConnection: Content-Length",
        "upgrade": CHUNKED + b"\r\nConnection: Upgrade\r\nUpgrade: h2c",
        "expect": CHUNKED + b"\r\nExpect: 100-continue",
    }
    for code in BYTES:
        byte, name = bytes([code]), f"{code:02x}"
        lines |= {
            f"{name} before the name": byte + CHUNKED,
            f"{name} after the name": b"Transfer-Encoding" + byte + b": chunked",
            f"{name} before the value": b"Transfer-Encoding:" + byte + b"chunked",
            f"{name} after the value": CHUNKED + byte,
            f"{name} around the name": byte + b"Transfer-Encoding" + byte + b": chunked",
            f"{name} around the value": b"Transfer-Encoding:" + byte + b"chunked" + byte,
            f"{name} around the colon": b"Transfer-Encoding" + byte + b":" + byte + b"chunked",
            f"{name} after another header": b"X: X" + byte + CHUNKED,
            f"{name} before another header": CHUNKED + byte + b"X: X",
            f"cr {name} after another header": b"X: X\r" + byte + CHUNKED,
            f"{name} lf after another header": b"X: X" + byte + b"\n" + CHUNKED,
            f"cr {name} before another header": CHUNKED + b"\r" + byte + b"X: X",
            f"{name} lf before another header": CHUNKED + byte + b"\nX: X",
        }
    orders = ["before", "after"]
    for name, line in lines.items():
        # Both orders take turns, to save time.
        first, last = orders
        orders.reverse()
        yield Form(f"encoding, {name}, length {first}, after the last chunk",
                   _after_last_chunk(line, first))
        yield Form(f"encoding, {name}, length {last}, in a chunk", _in_chunk(line, last))


def _with_length(line: bytes, order: str, length: int) -> bytes:
    lines = [b"Content-Length: %d" % length, line]
    return b"\r\n".join(lines if order == "before" else lines[::-1]) + b"\r\n\r\n"


def _after_last_chunk(line: bytes, order: str) -> Build:
    def build(head: bytes, hidden: bytes) -> bytes:
        body = b"0\r\n\r\n" + hidden
        return head + _with_length(line, order, len(body)) + body
    return build


def _in_chunk(line: bytes, order: str) -> Build:
    def build(head: bytes, hidden: bytes) -> bytes:
        size = b"%x\r\n" % len(hidden)
        return head + _with_length(line, order, len(size)) + size + hidden + b"\r\n0\r\n\r\n"
    return build


def _lengths() -> Iterator[Form]:
    """Variants of `Content-Length`: one reading is 0, another one includes what is hidden."""
    for text in (
        "Content-Length: 0\r\nContent-Length: N", "Content-Length: N\r\nContent-Length: 0",
        "Content-Length: N\r\nContent-Length: N", "Content-Length: 0, N", "Content-Length: N, 0",
        "Content-Length: N,N", "Content-Length: N,", "Content-Length: ,N", "Content-Length: +N",
        "Content-Length: -N", "Content-Length: -0", "Content-Length: 0xN", "Content-Length: N_0",
        "Content-Length: 0 N", "Content-Length: N 0", "Content-Length: N;", "Content-Length: N.0",
        "Content-Length: Ne0", "Content-Length: 00000000000000000000N", "Content-Length : N",
        "Content-Length\t: N", " Content-Length: N", "\tContent-Length: N", "Content-Length:\r\n N",
        "Content-Length:\n N", "Content-Length: N\r", "Content-Length: \0N", "Content-Length: N\0",
        "Content-Length\0: N", "Content-Length: \vN", "Content-Length: N\v", "Content-Length: N\f",
        "Content-Length: ", "Content-Length: \"N\"", "Content_Length: N",
        "Content-Length: 18446744073709551616",
        "Content-Length: 18446744073709551616N", "Content-Length: 4294967296",
        "Content-Length: 9223372036854775808",
        "X: X\nContent-Length: N", "X: X\rContent-Length: N", "X: X\0Content-Length: N",
        "Content-Length: N\r\nConnection: Content-Length", "Content-Length: ٣",
        "Content-Length: N\u00a0",
        "Expect: 100-continue\r\nContent-Length: N", "Expect: x 100-continue\r\nContent-Length: N",
        "Expect: 100-continue\r\nContent-Length: 0",
    ):
        def build(head: bytes, hidden: bytes, text: str = text) -> bytes:
            return head + text.replace("N", str(len(hidden))).encode() + b"\r\n\r\n" + hidden
        yield Form(f"length, {text!r}", build)


def _chunks() -> Iterator[Form]:
    """Variants of chunks. `N` is the size of what is hidden, `H` what is hidden."""
    for text in (
        "N\nH\r\n0\r\n\r\n", "N\rH\r\n0\r\n\r\n", "N\r\nH\n0\r\n\r\n", "N\r\nH0\r\n\r\n",
        "N\r\nHXX0\r\n\r\n",
        "0xN\r\nH\r\n0\r\n\r\n", "0XN\r\nH\r\n0\r\n\r\n", "+N\r\nH\r\n0\r\n\r\n",
        "-N\r\nH\r\n0\r\n\r\n",
        "-1\r\nH\r\n0\r\n\r\n", "0_N\r\nH\r\n0\r\n\r\n", " N\r\nH\r\n0\r\n\r\n",
        "\tN\r\nH\r\n0\r\n\r\n",
        "N \r\nH\r\n0\r\n\r\n", "N\t\r\nH\r\n0\r\n\r\n", "N\v\r\nH\r\n0\r\n\r\n",
        "N\0\r\nH\r\n0\r\n\r\n",
        "\0N\r\nH\r\n0\r\n\r\n", "N;a\r\nH\r\n0\r\n\r\n", "N;a=b\r\nH\r\n0\r\n\r\n",
        "N;a\nH\r\n0\r\n\r\n",
        "N;a\rb\r\nH\r\n0\r\n\r\n", "N;\nX\r\nH\r\n0\r\n\r\n", "N;a=\"\r\n\"\r\nH\r\n0\r\n\r\n",
        "N ;a\r\nH\r\n0\r\n\r\n",
        "N,0\r\nH\r\n0\r\n\r\n", "Nx\r\nH\r\n0\r\n\r\n", "Ng\r\nH\r\n0\r\n\r\n",
        "N.0\r\nH\r\n0\r\n\r\n",
        "\r\nN\r\nH\r\n0\r\n\r\n", "\nN\r\nH\r\n0\r\n\r\n",
        "000000000000000000000N\r\nH\r\n0\r\n\r\n",
        "10000000000000000\r\nH\r\n0\r\n\r\n", "1000000000000000N\r\nH\r\n0\r\n\r\n",
        "10000000N\r\nH\r\n0\r\n\r\n", "ffffffffffffffff\r\nH\r\n0\r\n\r\n", "0\r\n\r\nH",
        "00\r\n\r\nH",
        "0 \r\n\r\nH", "0;a\r\n\r\nH", "0\n\r\nH", "0\r\n\nH", "0\n\nH", "0\r\r\nH",
        "0\r\nX: X\r\n\r\nH",
        "0\r\nX: X\nY: Y\r\n\r\nH", "0\r\nContent-Length: N\r\n\r\nH",
        "0\r\nTransfer-Encoding: chunked\r\n\r\nN\r\nH\r\n0\r\n\r\n",
        "0\r\nHost: other\r\nAuthorization: x\r\n\r\nH", "0\r\nX\r\n\r\nH", "0\r\n X: X\r\n\r\nH",
        "0\r\n: X\r\n\r\nH",
        "0\r\nX: X\r\n\nH", "0\r\nX: \0\r\n\r\nH", "\r\n\r\nH", ";\r\nH\r\n0\r\n\r\n",
        "x\r\nH\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\n\r\nH",
        "2\r\n{}\r\n0\r\nH", "2\r\n{}0\r\n\r\nH", "2\n{}\n0\n\nH", "3\r\n{}\r\n0\r\n\r\nH",
        "1\r\n{}\r\n0\r\n\r\nH",
    ):
        def build(head: bytes, hidden: bytes, text: str = text) -> bytes:
            body = text.replace("N", f"{len(hidden):x}").encode().replace(b"H", hidden, 1) if (
                "Host" not in text) else text.encode().replace(b"\r\n\r\nH", b"\r\n\r\n" + hidden)
            return head + CHUNKED + b"\r\n\r\n" + body
        yield Form(f"chunk, {text!r}", build)


def _heads() -> Iterator[Form]:
    """Variants of the request line and of other parts of the head. `L` is the usual line."""
    for line, more in (
        ("L", "X: X\r\n \r\n"), ("L", " X: X\r\n"), ("L\r\n X: X", ""), ("L\r\n\tX: X", ""),
        ("L", "X: X\r\n\r\n"),
        ("L", "X: X\n\n"), ("L", "X: X\r\n\n"), ("L", "X: X\n\r\n"), ("L", "X: X\r\r\n"),
        ("L\n", ""), ("L\r", ""),
        ("L", "\0: X\r\n"), ("L", ": X\r\n"), ("L", "X\r\n"), ("L", "Host: other\r\n"),
        ("L", "Host : other\r\n"),
        ("L", " Host: other\r\n"), ("L", "Host:\r\n other\r\n"), ("L", "\xefX: X\r\n"),
        ("L", "X\x80: X\r\n"),
        ("L", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
        ("L", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"),
        ("POST /api/order/create HTTP/1.0", ""),
        ("POST /api/order/create HTTP/1.0", "Connection: keep-alive\r\n"),
        ("POST /api/order/create HTTP/1.0", "Transfer-Encoding: chunked\r\n"),
        ("POST /api/order/create HTTP/1.2", ""),
        ("POST /api/order/create HTTP/1.32", ""), ("POST /api/order/create HTTP/2.0", ""),
        ("POST /api/order/create http/1.1", ""),
        ("POST /api/order/create", ""), ("POST /api/order/create HTTP/1.1 HTTP/1.1", ""),
        ("POST  /api/order/create HTTP/1.1", ""),
        ("POST\t/api/order/create\tHTTP/1.1", ""), ("POST /api/order/create HTTP/01.1", ""),
        ("POST /api/order/create HTTP/1.1\v", ""),
        ("POST /api/order/create\nHTTP/1.1", ""), ("POST /api/order/create\rHTTP/1.1", ""),
        ("POST /api/order/create\0 HTTP/1.1", ""),
        ("POST /api/order/create HTTP/1.1\r\nX: X HTTP/1.1", ""),
        ("POST http://other/api/order/create HTTP/1.1", ""),
        ("POST //other/api/order/create HTTP/1.1", ""), ("POST * HTTP/1.1", ""),
        ("POST api/order/create HTTP/1.1", ""),
        ("POST /api/order/create#x HTTP/1.1", ""), ("POST /api/order/create?x y HTTP/1.1", ""),
        ("GET /api/order HTTP/1.1", ""),
        ("OPTIONS * HTTP/1.1", ""), ("TRACE /api/order HTTP/1.1", ""),
        ("DELETE /api/order HTTP/1.1", ""),
        ("CONNECT orders:80 HTTP/1.1", ""), ("CONNECT orders:443 HTTP/1.1", ""),
        ("G=\":<>(e),[T];?\" /api/order HTTP/1.1", ""),
        ("post /api/order/create HTTP/1.1", ""), ("\r\nPOST /api/order/create HTTP/1.1", ""),
        ("\nPOST /api/order/create HTTP/1.1", ""),
        (" POST /api/order/create HTTP/1.1", ""), ("\0POST /api/order/create HTTP/1.1", ""),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nPOST /api/order/create HTTP/1.1", ""),
        ("X\r\nPOST /api/order/create HTTP/1.1", ""), ("L", "Connection: close, keep-alive\r\n"),
        ("L", "Connection: Host, Content-Length, Authorization\r\n"),
        ("L", "Proxy-Connection: keep-alive\r\nKeep-Alive: timeout=99\r\n"),
    ):
        def build(head: bytes, hidden: bytes, line: str = line, more: str = more) -> bytes:
            usual, rest = head.split(b"\r\n", 1)
            first = line.encode("latin1")
            first = first.replace(b"L", usual) if line.startswith("L") else first
            return (first + b"\r\n" + rest + more.encode("latin1")
                    + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden)
        yield Form(f"head, {line!r} {more!r}", build)


class Smuggler:
    """Sends forms through a proxy, each on a connection of its own, with a usual request behind."""

    def __init__(self, key: str, certificate: Path, name: str) -> None:
        self._key, self._name = key, name
        self._context = ssl.create_default_context(cafile=certificate)
        self._lock = threading.Lock()
        self.outcome = Outcome()

    def order(self, file_number: str) -> bytes:
        fields = Order(1).fields()
        fields["signingDetailsFormData"]["fileNumber"] = file_number
        return json.dumps(fields).encode()

    def hidden_number(self, number: int) -> str:
        return f"{self._name}-H-{number}"

    def hidden(self, number: int) -> bytes:
        body = self.order(self.hidden_number(number))
        head = self._head("POST /api/order/create HTTP/1.1")
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def send(self, forms: list[Form]) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._try, range(len(forms)), forms))

    def _head(self, line: str) -> bytes:
        return (f"{line}\r\nHost: orders\r\nAuthorization: Bearer {self._key}\r\n"
                "Content-Type: application/json\r\n").encode()

    def _try(self, number: int, form: Form) -> None:
        behind = self._head("GET /api/order?limit=1 HTTP/1.1") + b"Connection: close\r\n\r\n"
        text = form.build(self._head("POST /api/order/create HTTP/1.1"), self.hidden(number))
        try:
            received = self._exchange(text + behind)
            answers = list(parse(received))
        except (OSError, ValueError) as error:
            with self._lock:
                self.outcome.forms += 1
                self.outcome.faults.append(f"{form.name}: {error!r}")
            return
        self.record(number, form.name, answers)

    def record(self, number: int, name: str, answers: list[tuple[int, dict, bytes]]) -> None:
        served = [answer for answer in answers if "x-request-id" in answer[1]]
        with self._lock:
            outcome = self.outcome
            outcome.forms += 1
            outcome.answers += len(served)
            for status, _, body in served:
                if status != 201:
                    continue
                created = json.loads(body)["file_number"]
                outcome.acknowledged.add(created)
                if created != self.hidden_number(number):
                    outcome.faults.append(f"{name}: got the answer of {created}")
            failed = any(status >= 500 for status, _, _ in answers if status not in (501, 505))
            outcome.kinds["an answer of 5xx" if failed else
                          "rejected by the proxy" if not served else
                          "several requests for both" if len(served) > 2 else
                          "one request for both"] += 1

    def _exchange(self, text: bytes) -> bytes:
        received = bytearray()
        with socket.create_connection(("127.0.0.1", PORT), timeout=TIMEOUT) as plain:
            with self._context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                try:
                    connection.sendall(text)
                    while piece := connection.recv(65536):
                        received += piece
                        connection.settimeout(QUIET)
                        if _is_last(bytes(received)):
                            break
                except TimeoutError:
                    # The proxy waits for the rest of a body after its rejection.
                    if not received:
                        raise
                except (ConnectionError, ssl.SSLError):
                    pass  # A rejected connection may end before everything is sent or read.
        return bytes(received)


def _is_last(received: bytes) -> bool:
    """Returns whether the last answer is whole and ends the connection. Envoy closes it later."""
    answers = list(parse(received))
    if not answers:
        return False
    _, headers, body = answers[-1]
    return (headers.get("connection") == "close"
            and headers.get("content-length") == str(len(body)))


def parse(received: bytes) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """Splits what a proxy sent into its answers. Proxies build these, so they are well-formed."""
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.[01] (\d{3})( .*)?", first)
        if not match:
            # An answer to HTTP/0.9, or the end of an answer that was cut off.
            return
        headers = {name.lower(): value.strip() for name, value in
                   (line.split(":", 1) for line in lines if ":" in line)}
        status = int(match[1])
        if status < 200:
            continue
        if "chunked" in headers.get("transfer-encoding", ""):
            body, received = _dechunk(received)
        elif "content-length" in headers and status not in (204, 304):
            length = int(headers["content-length"])
            body, received = received[:length], received[length:]
        else:
            body, received = received, b""
        yield status, headers, body


def _dechunk(received: bytes) -> tuple[bytes, bytes]:
    body = bytearray()
    while True:
        size, _, received = received.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        body += received[:length]
        received = received[length + 2:]
        if length == 0:
            return bytes(body), received
