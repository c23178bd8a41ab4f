#!/usr/bin/env python3
"""Puts nginx, HAProxy and Envoy in front of two instances, one after the other, with TLS.

Checks the promises of the service through each over HTTP/1.1 and HTTP/2, the addresses of clients,
and requests that hide others. Then reloads and kills the proxy, and stops and kills an instance,
under load.
"""

import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from topology import Audit, Load, run, venv
from topology.curl import Curl
from topology.promises import CREATE, Promises
from topology.proxies import INSTANCES, PORT, Instance, Proxy, certificate, proxies, start_postgres
from topology.smuggling import Smuggler, forms
from topology.smuggling_h2 import SmugglerH2

URL = f"https://127.0.0.1:{PORT}"
# Failed authentications of an address that one instance permits at once.
BURST = 20
ENVOY = Path()


def prepare() -> None:
    global ENVOY
    folder = venv(Path(__file__).with_suffix(".txt"))
    sys.path += map(str, folder.glob("lib/*/site-packages"))
    ENVOY = folder / "bin/envoy"


def check_promises(proxy: Proxy, key: str, documents: Path, figures) -> None:
    machine = proxy.machine
    for version in ("1.1", "2"):
        def check(at: int) -> str | None:
            curl = Curl(URL, key, version, machine.folder / "orders.pem")
            name = f"{proxy.name}-{version}-{at}"
            promise = Promises(curl, name, machine.folder, documents, proxy.name == "nginx").all()[at]
            try:
                promise()
            except Exception as error:
                return f"{promise.__name__}: {error!r}"
            return None

        count = len(Promises(Curl("", "", "", Path()), "", Path(), Path(), False).all())
        with ThreadPoolExecutor(4) as pool:
            broken = [fault for fault in pool.map(check, range(count)) if fault]
        figures.check(f"{proxy.name}: {count} promises over HTTP/{version}", not broken,
                      "; ".join(broken))


def check_addresses(proxy: Proxy, number: int, key: str, figures) -> None:
    """Guesses keys under forged addresses. The bucket of the real address must fill."""
    curl = Curl(URL, key, "1.1", proxy.machine.folder / "orders.pem")
    guesser, other = f"127.0.{number}.21", f"127.0.{number}.22"

    def guess(at: int, address: str) -> int:
        forged = f"198.51.100.{at % 250}"
        headers = [f"X-Forwarded-For: {forged}", f"Forwarded: for={forged}", f'Forwarded: for="{forged}',
                   f"X-Real-IP: {forged}"]
        words = [word for header in headers[at % 4:] for word in ("--header", header)]
        return curl.call(CREATE, "--interface", address, "--request", "POST", *words,
                         key="nok_wrong").status

    begin = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda at: guess(at, guesser), range(6 * BURST)))
    # The buckets of both instances, and what they regain meanwhile: one in a second.
    permitted = 2 * (BURST + 1 + int(time.monotonic() - begin))
    figures.add(f"{proxy.name}: wrong keys of one address under forged ones: {len(statuses)}; of "
                "them 401", statuses.count(401), at_most=permitted)
    figures.check(f"{proxy.name}: all others 429", statuses.count(401) + statuses.count(429)
                  == len(statuses), str(statuses))
    figures.check(f"{proxy.name}: another address is not limited", guess(0, other) == 401)
    body = proxy.machine.folder / "valid"
    body.write_bytes(Smuggler(key, proxy.machine.folder / "orders.pem", "").order(f"valid-{number}"))
    valid = curl.call(CREATE, "--interface", guesser, "--data-binary", f"@{body}", "--header",
                      "Content-Type: application/json")
    figures.check(f"{proxy.name}: a valid key from that address is accepted", valid.status == 201)


def check_smuggling(proxy: Proxy, key: str, name: str, instances: list[Instance], figures) -> None:
    pem = proxy.machine.folder / "orders.pem"
    first, second = Smuggler(key, pem, f"{name}-1"), SmugglerH2(key, pem, f"{name}-2")
    counts = [requests(instances)]
    for send in (lambda: first.send(forms()), second.send_all):
        send()
        # A request whose answer nobody read may still be counted.
        time.sleep(1)
        counts.append(requests(instances))
    outcomes = (first.outcome, second.outcome)
    kinds = first.outcome.kinds + second.outcome.kinds
    figures.add(f"{name}: forms that hide a request", f"{kinds.total()}: " + ", ".join(
        f"{count} {kind}" for kind, count in kinds.most_common()))
    # Envoy may notice only after the head that a request is wrong. Then it ends it.
    ended = counts[1] - counts[0] - first.outcome.answers
    figures.add(f"{name}: HTTP/1.1: requests at the service that the proxy answered itself", ended,
                at_least=0, at_most=first.outcome.kinds["rejected by the proxy"])
    figures.check(f"{name}: HTTP/2: not more requests at the service than sent",
                  counts[2] - counts[1] <= second.outcome.forms, str(counts))
    load = Load([URL], key, clients=0, tls=ssl.create_default_context(cafile=pem))
    stored = set(Audit()._list(load, URL))
    acknowledged = set().union(*(outcome.acknowledged for outcome in outcomes))
    figures.check(f"{name}: no hidden order without an answer of its own", stored == acknowledged,
                  str(sorted(stored ^ acknowledged)[:10]))
    faults = [fault for outcome in outcomes for fault in outcome.faults]
    figures.check(f"{name}: every answer went to its client", not faults, "; ".join(faults[:10]))


def requests(instances: list[Instance]) -> int:
    return int(sum(instance.metric("notary_orders_http_requests_total") for instance in instances))


def check_breaks(proxy: Proxy, first: int, key: str, instances: list[Instance], figures) -> None:
    context = ssl.create_default_context(cafile=proxy.machine.folder / "orders.pem")
    load = Load([URL], key, clients=6, tls=context, first=first).start()
    load.wait_for(100)
    last = instances[1]

    def measure(what: str, action, at_most: float, repeated: int | None = None) -> None:
        failed, begin = load.failures.total(), time.monotonic()
        action()
        load.wait_for(150)
        figures.add(f"{proxy.name}: {what}: longest time without an acknowledged order",
                    load.longest_gap(begin), "s", at_most=at_most)
        figures.add(f"{proxy.name}: {what}: attempts that clients repeated",
                    load.failures.total() - failed, at_most=repeated)

    def kill_proxy() -> None:
        proxy.kill()
        proxy.start()

    measure("reload", proxy.reload, 3.0)
    measure("an instance stops", last.process.stop, 3.0, 0)
    measure("it starts again", last.start, 3.0, 0)
    measure("an instance is killed", last.process.kill, 5.0)
    last.start()
    measure("the proxy is killed and starts again", kill_proxy, 10.0)
    load.stop()
    figures.add_load(load)
    figures.add_audit(Audit.of(load))


def main(machine, arguments, figures) -> None:
    certificate(machine)
    documents = machine.make_folder("documents")
    environment = {
        "DATABASE_URL": start_postgres(machine), "NOTARY_ORDERS_DOCUMENTS_URL": f"file://{documents}",
        "NOTARY_ORDERS_TRUSTED_PROXIES": "127.0.0.1", "NOTARY_ORDERS_LOG_LEVEL": "warn",
        "NOTARY_ORDERS_RATE_PER_SECOND": "1", "NOTARY_ORDERS_RATE_BURST": str(BURST),
        "NOTARY_ORDERS_DRAIN_SECS": "5",
    }
    instances = [Instance(machine, f"instance-{number}", address, environment)
                 for number, address in enumerate(INSTANCES, 1)]
    instances[0].migrate()
    for instance in instances:
        instance.start()

    def issue_key() -> str:
        many = "100000"
        return instances[0].issue_key(
            "--limit-per-second", many, "--limit-burst", many, "--documents-limit-per-second", many,
            "--documents-limit-burst", many)

    for number, proxy in enumerate(proxies(machine, ENVOY), 1):
        if arguments.proxy not in (None, proxy.name):
            continue
        proxy.start()
        check_promises(proxy, issue_key(), documents, figures)
        check_addresses(proxy, number, issue_key(), figures)
        check_smuggling(proxy, issue_key(), proxy.name, instances, figures)
        check_breaks(proxy, number * 1_000_000, issue_key(), instances, figures)
        proxy.stop()
        proxy.start(reuse=True)
        check_smuggling(proxy, issue_key(), f"{proxy.name} with reuse", instances, figures)
        proxy.stop()


def options(parser) -> None:
    parser.add_argument("--proxy", choices=("nginx", "haproxy", "envoy"), help="try only this one")


if __name__ == "__main__":
    run(main, __doc__, {"nginx": "nginx-light", "haproxy": "haproxy", "curl": "curl", "jq": "jq",
                        "openssl": "openssl", "/usr/lib/postgresql": "postgresql"},
        options, prepare)
