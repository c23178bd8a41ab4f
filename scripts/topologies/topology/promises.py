"""What the service promises its clients, and a proxy could break."""

import hashlib
import json
import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from .curl import Answer, Curl
from .load import Order
from .proxies import PORT
from .run import ROOT

CREATE, WITH_DOCUMENTS = "/api/order/create", "/api/order/create-with-documents"
MIB = 1024 * 1024


class Promises:
    """The promises, each a method. A promise that is broken raises an exception."""

    def __init__(self, curl: Curl, name: str, folder: Path, documents: Path,
                 answers_continue: bool) -> None:
        self._curl, self._name, self._folder = curl, name, folder
        self._documents, self._answers_continue = documents, answers_continue
        self._number = 0

    def all(self) -> list[Callable[[], None]]:
        return [getattr(self, name) for name in vars(type(self))
                if not name.startswith("_") and name != "all"]

    def an_order_is_created_once_under_its_key(self) -> None:
        body, key = self._json(), ["--header", f'Idempotency-Key: "{self._name}"']
        first, second = self._post(body, *key), self._post(body, *key)
        assert first.status == second.status == 201, (first, second)
        assert first.json()["order_id"] == second.json()["order_id"], "two orders"
        assert second.headers["idempotency-replayed"] == "true", second.headers
        assert first.version == self._curl.version, first.version

    def twenty_documents_are_stored(self) -> None:
        document = self._file("20.pdf", 300_000)
        answer = self._form(*[document] * 20)
        assert answer.status == 201 and answer.json()["documents_uploaded"] == 20, answer

    def the_largest_document_is_stored(self) -> None:
        answer = self._form(self._file("large.pdf", 10 * MIB))
        assert answer.status == 201, answer

    def a_body_without_a_length_is_accepted(self) -> None:
        document = self._file("chunked.pdf", 500_000)
        form = self._folder / f"{self._name}-form"
        form.write_bytes(self._form_body(document.read_bytes()))
        length = ["--header", "Content-Length:"] if self._curl.version == "2" else [
            "--header", "Transfer-Encoding: chunked"]
        answer = self._curl.call(
            WITH_DOCUMENTS, "--request", "POST", "--upload-file", form, *length,
            "--header", "Content-Type: multipart/form-data; boundary=b")
        assert answer.status == 201, answer

    def documents_are_read_whole_in_parts_and_conditionally(self) -> None:
        document = self._file("read.pdf", 3 * MIB)
        content = document.read_bytes()
        url = f"/api/order/{self._form(document).json()['order_id']}/documents/0"
        whole = self._curl.call(url)
        digest = hashlib.sha256(content).hexdigest()
        assert whole.body == content and whole.headers["etag"] == f'"{digest}"', whole.headers
        for header in ("repr-digest", "content-disposition", "accept-ranges", "cache-control",
                       "content-security-policy", "x-content-type-options", "x-request-id"):
            assert header in whole.headers, f"{header} is missing"
        assert whole.headers["content-length"] == str(len(content)), whole.headers
        part = self._curl.call(url, "--range", "1000-1999")
        assert part.status == 206 and part.body == content[1000:2000], part.status
        assert part.headers["content-range"] == f"bytes 1000-1999/{len(content)}", part.headers
        self._curl.call(url, "--range", f"{len(content)}-").problem(416, "range_not_satisfiable")
        current = self._curl.call(url, "--header", f'If-None-Match: "{digest}"')
        assert current.status == 304 and not current.body, current.status
        head = self._curl.call(url, "--head")
        assert head.status == 200 and head.headers["content-length"] == str(len(content)), head

    def half_a_document_does_not_look_whole(self) -> None:
        size = 9 * MIB + len(self._name)
        order = self._form(self._file("half.pdf", size)).json()["order_id"]
        [stored] = [path for path in self._documents.rglob("*")
                    if path.is_file() and path.stat().st_size == size]
        os.truncate(stored, size // 2)
        answer = self._curl.call(f"/api/order/{order}/documents/0")
        assert answer.exit_status != 0 or answer.status >= 500, answer.status

    def a_slow_upload_is_accepted(self) -> None:
        document = self._file("slow.pdf", 500_000)
        answer = self._form(document, options=["--limit-rate", "50k"])
        assert answer.status == 201, answer

    def a_body_that_stalls_gets_an_answer(self) -> None:
        if self._curl.version == "2":
            return
        context = ssl.create_default_context(cafile=self._folder / "orders.pem")
        with context.wrap_socket(socket.create_connection(("127.0.0.1", PORT), timeout=60),
                                 server_hostname="127.0.0.1") as connection:
            connection.sendall(
                f"POST {CREATE} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {self._curl.key}\r\n"
                "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode())
            answer = connection.recv(4096)
        assert b" 408 " in answer[:20] and b"x-request-id" in answer.lower(), answer

    def rejections_are_readable_before_the_body_is_sent(self) -> None:
        # Envoy resets the stream of a rejected upload, and curl 7.88 then shows no answer.
        if self._curl.version == "2" and self._name.startswith("envoy"):
            return
        large = self._file("early.pdf", 10 * MIB)
        forms = ["--form", f"documents=@{large}"] * 3
        options = [*forms, "--header", "Expect:"]
        self._curl.call(WITH_DOCUMENTS, *options, key="nok_wrong").problem(401, "unauthorized")
        too_large = self._form(self._file("over.pdf", 10 * MIB + 1))
        assert "over.pdf" in too_large.problem(413, "document_too_large")["detail"]
        self._post(b"{" + b" " * 300_000, "--header", "Expect:").problem(413, "payload_too_large")
        endless = self._folder / f"{self._name}-endless"
        with endless.open("wb") as file:
            file.truncate(300 * MIB)
        self._curl.call(
            WITH_DOCUMENTS, "--request", "POST", "--upload-file", endless, "--header", "Expect:",
            "--header", "Content-Type: multipart/form-data; boundary=b",
        ).problem(413, "payload_too_large")
        self._post(self._json(), "--header", "Content-Type: text/plain").problem(
            415, "unsupported_media_type")

    def expect_is_answered(self) -> None:
        if self._curl.version == "2":
            return
        expect = ["--header", "Expect: 100-continue", "--expect100-timeout", "20"]
        answer = self._post(self._json(), *expect)
        assert answer.status == 201 and answer.interim == [100], answer
        wrong = self._post(self._json(), *expect, key="nok_wrong")
        wrong.problem(401, "unauthorized")
        # nginx always answers `100 Continue` itself.
        assert wrong.interim == ([100] if self._answers_continue else []), wrong.interim

    def problems_keep_their_headers(self) -> None:
        body = self._json()
        assert self._post(body).status == 201
        duplicate = self._post(body)
        duplicate.problem(409, "duplicate_order")
        assert int(duplicate.headers["retry-after"]) > 0, duplicate.headers
        assert self._curl.call(CREATE).headers["allow"] == "POST"
        assert self._post(body, key="nok_wrong").headers["www-authenticate"].startswith("Bearer")
        self._curl.call("/nowhere").problem(404, "not_found")
        invalid = self._post(b"{}").problem(400, "validation_failed")
        assert len(invalid["errors"]) > 3, invalid

    def clients_do_not_choose_request_ids(self) -> None:
        answer = self._curl.call("/nowhere", "--header", "X-Request-Id: forged")
        assert answer.problem(404, "not_found")["request_id"] != "forged"

    def queries_and_paths_arrive_unchanged(self) -> None:
        first = self._post(self._json()).json()["order_id"]
        self._post(self._json())
        page = self._curl.call("/api/order?limit=1&created_after=2020-01-01T00:00:00%2B01:00")
        assert page.status == 200 and page.json()["has_more"], page
        assert "%2B01" in page.headers["link"] and 'rel="next"' in page.headers["link"], page.headers
        assert self._curl.call(f"/api/order/{first}").json()["order_id"] == first
        for path in (f"{CREATE}/../create", "/api//order", f"/api/order%2F{first}"):
            answer = self._curl.call(path)
            assert answer.status == 404, f"{path}: {answer.status}"

    def a_connection_is_used_again_after_a_rejection(self) -> None:
        body = self._folder / f"{self._name}-again"
        body.write_bytes(self._json())
        post = ["--data-binary", f"@{body}", "--header", "Content-Type: application/json"]
        words = self._curl.words
        done = subprocess.run(
            ["curl", "--write-out", "%{http_code} %{num_connects}\n", "--output", "/dev/null",
             *words(CREATE, *post, key="nok_wrong"), "--next", "--write-out",
             "%{http_code} %{num_connects}\n", "--output", "/dev/null", *words(CREATE, *post)],
            capture_output=True, text=True)
        assert done.stdout.split() == ["401", "1", "201", "0"], done.stdout

    def requests_at_the_same_time_get_their_own_answers(self) -> None:
        """With HTTP/2 they share a connection."""
        document, words = self._file("parallel.pdf", 200_000), []
        for number in range(24):
            name = f"{self._name}-parallel-{number}"
            words += ["--next"] if words else []
            words += ["--output", str(self._folder / name), "--write-out", "%{num_connects}\n",
                      *self._curl.words(WITH_DOCUMENTS, *self._form_words([document], name))]
        done = subprocess.run(["curl", "--parallel", "--parallel-max", "24", *words],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for number in range(24):
            name = f"{self._name}-parallel-{number}"
            answer = json.loads((self._folder / name).read_bytes())
            assert answer.get("file_number") == name, answer
        connections = sum(map(int, done.stdout.split()))
        assert self._curl.version == "1.1" or connections == 1, connections

    def the_client_of_the_guide_succeeds(self) -> None:
        if self._curl.version == "2":
            return
        done = subprocess.run(
            [ROOT / "docs/examples/create-orders.sh"], capture_output=True, text=True,
            env={**os.environ, "BASE_URL": self._curl.url, "API_KEY": self._curl.key,
                 "FILE_NUMBER": f"{self._name}-guide", "STATE_DIR": str(self._folder),
                 "CURL_CA_BUNDLE": str(self._folder / "orders.pem")})
        assert done.returncode == 0 and done.stdout.count("order_id") == 2, done.stdout + done.stderr

    def _fields(self, file_number: str | None = None) -> dict:
        self._number += 1
        fields = Order(1).fields()
        fields["signingDetailsFormData"]["fileNumber"] = file_number or f"{self._name}-{self._number}"
        return fields

    def _json(self) -> bytes:
        return json.dumps(self._fields()).encode()

    def _parts(self, file_number: str | None = None) -> list[tuple[str, str]]:
        return [(name, json.dumps(value)) for name, value in self._fields(file_number).items()]

    def _post(self, body: bytes, *options: object, key: str | None = None) -> Answer:
        file = self._folder / f"{self._name}-body"
        file.write_bytes(body)
        content_type = [] if "Content-Type: text/plain" in options else [
            "--header", "Content-Type: application/json"]
        return self._curl.call(CREATE, "--data-binary", f"@{file}", *content_type, *options, key=key)

    def _form(self, *documents: Path, options: list[object] = []) -> Answer:
        return self._curl.call(WITH_DOCUMENTS, *self._form_words(documents), *options)

    def _form_words(self, documents: Sequence[Path], file_number: str | None = None) -> list[str]:
        fields = [word for name, value in self._parts(file_number)
                  for word in ("--form-string", f"{name}={value}")]
        return fields + [word for file in documents for word in ("--form", f"documents=@{file}")]

    def _form_body(self, document: bytes) -> bytes:
        body = b"".join(
            f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in self._parts())
        return (body + b'--b\r\nContent-Disposition: form-data; name="documents"; '
                b'filename="a.pdf"\r\n\r\n' + document + b"\r\n--b--\r\n")

    def _file(self, name: str, size: int) -> Path:
        folder = self._folder / self._name
        folder.mkdir(exist_ok=True)
        file = folder / name
        head, tail = b"%PDF-1.7\n", b"\n%%EOF\n"
        file.write_bytes(head + os.urandom(size - len(head) - len(tail)) + tail)
        return file
