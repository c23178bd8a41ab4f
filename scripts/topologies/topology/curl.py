"""A client that knows HTTP/1.1 and HTTP/2."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    # Statuses of the interim answers before it, such as 100.
    interim: list[int]
    version: str
    # 0 if the transfer was complete.
    exit_status: int
    connections: int = 0

    def json(self) -> dict:
        return json.loads(self.body)

    def problem(self, status: int, code: str) -> dict:
        """Asserts a problem of the service, and returns it."""
        assert self.status == status, f"{self.status} instead of {status}: {self.body[:300]!r}"
        assert self.headers.get("content-type") == "application/problem+json", self.headers
        problem = self.json()
        assert problem["code"] == code, problem
        assert problem["request_id"] == self.headers["x-request-id"], problem
        return problem


class Curl:
    """Calls one URL with a protocol, a certificate and an API key."""

    def __init__(self, url: str, key: str, version: str, certificate: Path) -> None:
        self.url, self.key, self.version = url, key, version
        self._certificate = certificate

    def words(self, path: str, *options: object, key: str | None = None) -> list[str]:
        authorization = f"Authorization: Bearer {self.key if key is None else key}"
        return ["--silent", "--show-error", f"--http{self.version}", "--cacert",
                str(self._certificate), "--max-time", "60", "--path-as-is", "--globoff",
                "--header", authorization, *map(str, options), self.url + path]

    def call(self, path: str, *options: object, key: str | None = None) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            head, body = Path(folder, "head"), Path(folder, "body")
            done = subprocess.run(
                ["curl", "--dump-header", head, "--output", body, "--write-out",
                 "%{http_version} %{num_connects}", *self.words(path, *options, key=key)],
                capture_output=True, text=True)
            heads = head.read_text(errors="replace").strip() if head.exists() else ""
            content = body.read_bytes() if body.exists() else b""
        blocks = heads.split("\n\n") if heads else []
        statuses = [int(block.split()[1]) for block in blocks]
        lines = blocks[-1].splitlines()[1:] if blocks else []
        headers = {name.lower(): value.strip() for name, value in
                   (line.split(":", 1) for line in lines if ":" in line)}
        version, connections = (done.stdout.split() + ["", "0"])[:2]
        return Answer(statuses[-1] if statuses else 0, headers, content, statuses[:-1], version,
                      done.returncode, int(connections))
