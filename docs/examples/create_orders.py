"""Creates an order without documents and an order with documents, each exactly once. Then reads the
second one back and downloads its documents.

Needs Python 3.11 and requests. Settings: BASE_URL, API_KEY, FILE_NUMBER (prefix of the file
numbers), STATE_DIR (folder of the idempotency keys).
"""

import hashlib
import json
import os
import random
import sys
import time
import uuid
from pathlib import Path

import requests

ATTEMPTS = 5
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 30.0  # seconds
TIMEOUT = 60  # seconds without progress

ADVICE = {
    "unauthorized": "check API_KEY, or ask the operator for a new key",
    "forbidden": "the key lacks a scope or is limited to another signing service: ask the operator",
    "not_found": "check BASE_URL",
    "method_not_allowed": "check BASE_URL",
    "duplicate_order": "another order has just used this file number: find it before you send this one",
    "idempotency_key_reused": "the stored key was used for another payload: send that payload, or use a new key",
}


class OrderFailed(Exception):
    def __init__(self, message: str, code: str | None = None, faults: tuple[str, ...] = ()):
        super().__init__(message)
        self.code, self.faults = code, faults


def order(file_number: str) -> dict:
    return {
        "signingContactsFormData": {"orderContactEmail": "escrow@title.example.com"},
        "signingDetailsFormData": {
            "fileNumber": file_number, "signingType": "Refinance",
            "signingDate": "2026-12-01", "signingTimeType": "at", "specificTime": "14:30",
            "timeZoneId": "America/Chicago",
            "propertyAddress": "123 Main St, Dallas, TX 75201",
            "city": "Dallas", "state": "TX", "zipcode": "75201",
            "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
            "signerEmail": "jane.doe@example.com",
        },
        "signingServiceId": 42,
        "requestedBy": {"userId": 1001},
    }


def idempotency_key(file_number: str) -> str:
    """Makes one key for each order and stores it before the first attempt, so that a restarted
    program repeats with the same key. Stores it in a file; your product stores it in a column."""
    stored = Path(os.environ.get("STATE_DIR", "."), f"{file_number}.idempotency-key")
    if not stored.exists():
        # A crash must not leave half a key.
        made = stored.with_suffix(".new")
        made.write_text(str(uuid.uuid4()))
        made.replace(stored)
    return stored.read_text()


def send(method: str, path: str, expected: int | tuple[int, ...], headers: dict | None = None, **body) -> requests.Response:
    """Sends until there is a final answer, and returns it if its status is an expected one. A repeat
    must be safe."""
    statuses = expected if isinstance(expected, tuple) else (expected,)
    url = os.environ["BASE_URL"].rstrip("/") + path
    headers = {"Authorization": f"Bearer {os.environ['API_KEY']}", **(headers or {})}
    failure = ""
    for attempt in range(ATTEMPTS):
        try:
            response = requests.request(method, url, headers=headers, timeout=TIMEOUT, allow_redirects=False, **body)
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
            # The service may have done it or not.
            failure, retry_after = f"no answer: {error}", 0
        else:
            if response.status_code in statuses:
                return response
            problem = problem_of(response)
            failure = described(response.status_code, problem)
            if not worth_repeating(response.status_code, problem.get("code")):
                faults = tuple(error["code"] for error in problem.get("errors", []))
                raise OrderFailed(failure, problem.get("code"), faults)
            seconds = response.headers.get("Retry-After", "")
            retry_after = int(seconds) if seconds.isdecimal() else 0
        if attempt + 1 < ATTEMPTS:
            # Never earlier than Retry-After. The jitter spreads clients that got the same value.
            time.sleep(retry_after + random.uniform(0, min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**attempt)))
    raise OrderFailed(f"gave up after {ATTEMPTS} attempts, try later again: {failure}")


def worth_repeating(status: int, code: str | None) -> bool:
    return status == 429 or (status >= 500 and status != 501) or code == "idempotency_in_flight"


def problem_of(response: requests.Response) -> dict:
    """Returns the problem; an empty one if a proxy answered instead of the service."""
    if response.headers.get("Content-Type", "").startswith("application/problem+json"):
        try:
            return response.json()
        except ValueError:
            pass
    return {}


def described(status: int, problem: dict) -> str:
    code = problem.get("code", "no code")
    by_class = {4: "correct the request", 5: "the service failed, not the request"}
    advice = ADVICE.get(code) or by_class.get(status // 100, "check BASE_URL")
    detail, request = problem.get("detail", "no detail"), problem.get("request_id", "unknown")
    lines = [f"{status} {code}: {detail} ({advice}; request {request})"]
    for error in problem.get("errors", []):
        lines.append(f"  {error.get('pointer') or error.get('parameter')} {error['code']}: {error['detail']}")
    return "\n".join(lines)


def post(path: str, file_number: str, **body) -> int:
    """Creates an order, and returns its id. The key makes repeats safe."""
    headers = {"Idempotency-Key": f'"{idempotency_key(file_number)}"'}
    return send("POST", path, 201, headers, **body).json()["order_id"]


def create(file_number: str) -> int:
    return post("/api/order/create", file_number, json=order(file_number))


def create_with_documents(file_number: str, documents: list[Path]) -> int:
    # In the form, every part but the files is a text: objects as JSON, the id in decimal digits.
    texts = {name: json.dumps(value) for name, value in order(file_number).items()}
    # Bytes, not open files: every attempt sends all of them.
    files = [("documents", (document.name, document.read_bytes())) for document in documents]
    return post("/api/order/create-with-documents", file_number, data=texts, files=files)


def get(path: str) -> requests.Response:
    """Reads a path. A read changes nothing, so it can be repeated without a key."""
    return send("GET", path, 200)


def read_back(order_id: int) -> None:
    """Reads an order back, and downloads its documents."""
    for document in get(f"/api/order/{order_id}").json()["documents"]:
        content = get(f"/api/order/{order_id}/documents/{document['position']}").content
        if hashlib.sha256(content).hexdigest() != document["sha256"]:
            raise OrderFailed(f"{document['name']} is damaged")
        print("document", document["name"])


def main() -> None:
    file_number = os.environ.get("FILE_NUMBER", "REFI-2026-100")
    folder = Path(__file__).parent
    print("order_id", create(f"{file_number}-1"))
    documents = [folder / "deed-of-trust.pdf", folder / "signing-instructions.docx"]
    order_id = create_with_documents(f"{file_number}-2", documents)
    print("order_id", order_id)
    read_back(order_id)


def run(program) -> None:
    missing = [name for name in ("BASE_URL", "API_KEY") if not os.environ.get(name)]
    if missing:
        sys.exit(f"set {' and '.join(missing)}")
    try:
        program()
    except (OrderFailed, requests.RequestException) as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    run(main)
