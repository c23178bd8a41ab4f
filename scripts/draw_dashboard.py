#!/usr/bin/env python3
"""Draws docs/images/dashboard.png: the panels of the Grafana dashboard under mixed load.

Starts a service, a mail relay, a malware scanner, a receiver of webhooks and a Prometheus server on
loopback, and asks that server for every expression of the dashboard. Fails if one of them has an
error or no data.

    just dashboard --seconds 240   # needs Debian's package prometheus
"""

import argparse
import http.client
import http.server
import io
import json
import math
import os
import random
import socketserver
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # noqa: E402
from PIL import Image  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "packaging/prometheus/notary-orders.rules.yml"
DASHBOARD = ROOT / "packaging/grafana/notary-orders.json"
SCRAPE_SECONDS = 2
# Long, so that no random document has it.
BOUNDARY = "end-of-part-of-the-load"
VARIABLES = {"$job": "notary-orders", "$instance": ".*", "$__rate_interval": "16s"}


class Relay(socketserver.StreamRequestHandler):
    """Accepts every mail while it is open."""

    is_open = threading.Event()

    def handle(self):
        if not self.is_open.is_set():
            return self.wfile.write(b"421 closed\r\n")
        self.wfile.write(b"220 relay\r\n")
        for line in self.rfile:
            command = line[:4].upper().strip()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                while self.rfile.readline() not in (b".\r\n", b""):
                    pass
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")
            if command == b"QUIT" or not self.is_open.is_set():
                return None


class Scanner(socketserver.StreamRequestHandler):
    """Answers as clamd: a document in a hundred has malware, and a scan in a hundred fails."""

    def handle(self):
        command = b""
        while (byte := self.rfile.read(1)) not in (b"\0", b""):
            command += byte
        if command == b"zPING":
            return self.wfile.write(b"PONG\0")
        while size := int.from_bytes(self.rfile.read(4), "big"):
            self.rfile.read(size)
        answers = [b"OK", b"Made-Up-Signature FOUND", b"Made-Up ERROR"]
        answer, = random.choices(answers, [98, 1, 1])
        return self.wfile.write(b"stream: " + answer + b"\0")


class Receiver(http.server.BaseHTTPRequestHandler):
    """Accepts most webhooks."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503 if random.random() < 0.02 else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(server_class, handler, port):
    class Server(server_class):
        allow_reuse_address = daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


class Load:
    """Sends requests of all kinds."""

    def __init__(self, port, key, test_key):
        self.port, self.key, self.test_key = port, key, test_key
        self.number = 0
        self.lock = threading.Lock()

    def order(self, file_number=None, **more):
        with self.lock:
            self.number += 1
            file_number = file_number or f"LOAD-{self.number}"
        return {
            "signingContactsFormData": {"orderContactEmail": "escrow@title.example.com"},
            "signingDetailsFormData": {
                "fileNumber": file_number, "signingDate": "2026-12-01", "signingTimeType": "at",
                "specificTime": "14:30", "timeZoneId": "America/Chicago",
                "propertyAddress": "123 Main St, Dallas, TX 75201", "city": "Dallas",
                "state": "TX", "zipcode": "75201", "signingType": "Refinance",
                "signerName": "Jane Doe", "signerPhone": "+1 555 010 0199",
                "signerEmail": "jane.doe@example.com",
            },
            "signingServiceId": 42, "requestedBy": {"userId": 1001}, **more,
        }

    def form(self, order):
        lines = []
        order = {**order, "signingServiceId": 42}
        for name, value in order.items():
            lines.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
                         f"{json.dumps(value)}\r\n".encode())
        for _ in range(random.randint(1, 3)):
            size = int(10 ** random.uniform(4, 6))
            head = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="documents"; '
                    'filename="deed.pdf"\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.7\n')
            lines.append(head.encode() + random.randbytes(size) + b"\r\n")
        return b"".join(lines) + f"--{BOUNDARY}--\r\n".encode()

    def requests(self, latest):
        """Returns kinds of requests: weight, method, path, key, headers, body."""
        create, upload = "/api/order/create", "/api/order/create-with-documents"
        form = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        repeat = {"Idempotency-Key": f'"repeat-{self.number // 500}"'}
        return [
            (56, "POST", create, self.key, {}, self.order),
            (8, "POST", upload, self.key, form, lambda: self.form(self.order())),
            (4, "POST", create, self.test_key, {}, self.order),
            (4, "POST", create, self.key, repeat, lambda: self.order("REPEATED")),
            (3, "POST", create, self.key, {}, lambda: self.order("DUPLICATE")),
            (2, "POST", create, self.key, {}, lambda: {"signingServiceId": -1}),
            (1, "POST", create, self.key, {},
             lambda: self.order(utcTimeDate="2026-12-01T14:30:00Z")),
            (1, "POST", create, "nok_unknown", {}, self.order),
            (12, "GET", f"/api/order/{latest}", self.key, {}, None),
            (4, "GET", "/api/order?limit=20", self.key, {}, None),
            (5, "GET", f"/api/order/{latest}/documents/0", self.key, {}, None),
        ]

    def run(self, end, pause):
        connection, latest, latest_upload = None, 1, 1
        while (now := time.monotonic()) < end:
            kinds = self.requests(latest)
            weights = [kind[0] for kind in kinds]
            _, method, path, key, headers, body = random.choices(kinds, weights)[0]
            if path.endswith("/documents/0"):
                path = f"/api/order/{latest_upload}/documents/0"
            body = body() if body else None
            if isinstance(body, dict):
                body, headers = json.dumps(body), {**headers, "Content-Type": "application/json"}
            connection = connection or http.client.HTTPConnection("127.0.0.1", self.port)
            try:
                connection.request(method, path, body, {**headers, "Authorization": f"Bearer {key}"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status == 201 and key == self.key:
                    latest = json.loads(text)["order_id"]
                    latest_upload = latest if path.endswith("documents") else latest_upload
                if answer.will_close:
                    connection = None
            except OSError:
                connection = None
            # More and less in turn.
            time.sleep(pause * (1 + 0.7 * math.sin(now / 15)))


def ask(url, **parameters):
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{url}?{query}", timeout=10) as answer:
        return answer.read()


def wait_until_ready(url):
    for _ in range(300):
        try:
            return ask(url)
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} is not ready")


def run_load(arguments, folder):
    """Runs service, Prometheus and load. Returns the answer to each query of each panel."""
    api, ops, relay, receiver, scanner, prometheus = range(arguments.port, arguments.port + 6)
    Relay.is_open.set()
    serve(socketserver.ThreadingTCPServer, Relay, relay)
    serve(http.server.ThreadingHTTPServer, Receiver, receiver)
    serve(socketserver.ThreadingTCPServer, Scanner, scanner)
    settings = [f"--data-dir={folder}/data", f"--listen=127.0.0.1:{api}",
                f"--ops-listen=127.0.0.1:{ops}", f"--mail-url=smtp://127.0.0.1:{relay}?tls=none",
                "--webhook-allow=127.0.0.1", "--rate-per-second=0", "--reads-rate-per-second=0",
                "--mails-per-recipient-hour=0", "--drain-secs=0",
                f"--scan-url=tcp://127.0.0.1:{scanner}", "--scan-required=false"]
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {SCRAPE_SECONDS}s, evaluation_interval: 5s}}\n"
        f"rule_files: ['{RULES}']\n"
        "scrape_configs:\n  - job_name: notary-orders\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{ops}']}}]\n")
    started = []
    try:
        with open(folder / "log", "wb") as log:
            started.append(subprocess.Popen([arguments.service, *settings], stdout=log, stderr=log))
            wait_until_ready(f"http://127.0.0.1:{ops}/readyz")
            started.append(subprocess.Popen(
                [arguments.prometheus, f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/prometheus",
                 f"--web.listen-address=127.0.0.1:{prometheus}"], stdout=log, stderr=log))

        def command(*words):
            run = subprocess.run([arguments.service, *words, *settings[:1], settings[4]],
                                 check=True, capture_output=True, text=True)
            return run.stdout.strip()

        key = command("keys", "issue", "--name=load", "--client=1")
        test_key = command("keys", "issue", "--name=test", "--test")
        command("webhooks", "create", "--client=1", f"--url=http://127.0.0.1:{receiver}/")
        wait_until_ready(f"http://127.0.0.1:{prometheus}/-/ready")
        load, begin = Load(api, key, test_key), time.time()
        end = time.monotonic() + arguments.seconds
        threads = [threading.Thread(target=load.run, args=(end, 0.08)) for _ in range(8)]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            # A load balancer.
            wait_until_ready(f"http://127.0.0.1:{ops}/readyz")
            # The relay is closed for a quarter of the time.
            part = (end - time.monotonic()) / arguments.seconds
            (Relay.is_open.clear if 0.4 < part < 0.65 else Relay.is_open.set)()
            time.sleep(1)
        for thread in threads:
            thread.join()
        time.sleep(2 * SCRAPE_SECONDS)
        return begin, evaluate(f"http://127.0.0.1:{prometheus}", begin + 10, time.time())
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def evaluate(prometheus, begin, end):
    answers = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        series = []
        for target in panel.get("targets", []):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            answer = json.loads(ask(f"{prometheus}/api/v1/query_range", query=query, start=begin,
                                    end=end, step=SCRAPE_SECONDS))
            found = answer["data"]["result"]
            if not found:
                raise SystemExit(f"no data in {panel['title']}: {query}")
            for one in found:
                name = target["legendFormat"]
                for label, value in one["metric"].items():
                    name = name.replace("{{%s}}" % label, value)
                series.append((name[-32:], [(float(at), float(value)) for at, value in one["values"]]))
        answers.append((panel, series))
    return answers


def axis_format(unit):
    if unit == "percentunit":
        return ticker.PercentFormatter(1, decimals=None)
    if unit == "bool_yes_no":
        return ticker.FuncFormatter(lambda value, _: {0: "no", 1: "yes"}.get(value, ""))
    return ticker.EngFormatter({"s": "s", "bytes": "B", "Bps": "B/s"}.get(unit, ""), sep="")


def draw(begin, answers, file):
    """Draws the panels at their places in the dashboard."""
    pyplot.rcParams.update({"font.size": 7, "axes.titlesize": 8, "lines.linewidth": 1})
    heights = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel, _ in answers)
    figure = pyplot.figure(figsize=(13, heights * 0.2), dpi=90)
    for panel, series in answers:
        place = panel["gridPos"]
        left, width = place["x"] / 24, place["w"] / 24
        top, height = 1 - place["y"] / heights, place["h"] / heights
        if panel["type"] == "row":
            figure.text(0.01, top - height, panel["title"], fontsize=10, weight="bold", va="bottom")
            continue
        axes = figure.add_axes((left + 0.035, top - height * 0.84, width - 0.05, height * 0.68))
        for name, points in series:
            axes.plot([at - begin for at, _ in points], [value for _, value in points], label=name)
        axes.set_title(panel["title"], loc="left")
        highest = max((value for _, points in series for _, value in points
                       if not math.isnan(value)), default=0)
        # Room for the legend.
        axes.set_ylim(0, highest * 1.4 if highest > 1e-3 else 1)
        axes.yaxis.set_major_formatter(axis_format(panel["fieldConfig"]["defaults"]["unit"]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda at, _: f"{at / 60:.0f} min"))
        axes.xaxis.set_major_locator(ticker.MultipleLocator(60))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=5, loc="upper left", ncols=place["w"] // 3, framealpha=0.6)
    image = io.BytesIO()
    figure.savefig(image)
    # Few colours make a small file.
    Image.open(image).convert("RGB").quantize(48).save(file, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--service", default=ROOT / "target/release/notary-orders")
    parser.add_argument("--prometheus", default="prometheus")
    parser.add_argument("--port", type=int, default=61300, help="the first of six")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--to", default=ROOT / "docs/images/dashboard.png")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin, answers = run_load(arguments, Path(folder))
    draw(begin, answers, arguments.to)
    queries = sum(len(panel.get("targets", [])) for panel, _ in answers)
    print(f"{queries} queries had data; {arguments.to}: {os.path.getsize(arguments.to)} bytes")


if __name__ == "__main__":
    main()
