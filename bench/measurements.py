"""The measurements. Each returns the rows of the table."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import threading
import time
from dataclasses import dataclass, field

import clients
import held as held_open
from clients import Sample
from machine import folder
from rows import Row
from servers import HERE, Fastify, Nginx, Service

WIRINGS = ("PostgreSQL", "SQLite")


@dataclass
class Bench:
    """How the measurements run."""

    program: pathlib.Path
    postgres: object
    rounds: int
    seconds: int
    warmup: int
    documents: int
    minute: int
    without: pathlib.Path
    progress: list = field(default_factory=list)

    @contextlib.contextmanager
    def service(self, wiring, start=True, program=None, **options):
        """Yields a service with an empty database."""
        with folder() as place, self.database(wiring == "PostgreSQL") as database:
            service = Service(program or self.program, place, self.postgres, database, **options)
            try:
                yield service.start() if start else service
            finally:
                if service.process:
                    service.stop()

    @contextlib.contextmanager
    def fastify(self):
        with folder() as place, self.database() as database:
            fastify = Fastify(place, self.postgres, database)
            try:
                yield fastify
            finally:
                fastify.stop()

    @contextlib.contextmanager
    def database(self, wanted=True):
        database = self.postgres.new_database() if wanted else None
        try:
            yield database
        finally:
            if database:
                self.postgres.drop(database)

    def alternate(self, contestants):
        """Runs the contestants by turns, and returns the samples of each. The first one changes
        from round to round, because a machine changes from minute to minute."""
        samples = {name: [] for name in contestants}
        names = list(contestants)
        for number in range(self.rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                self.postgres.flush()
                samples[name].append(contestants[name]())
                self.say(f"round {number + 1}: {name}: {samples[name][-1]}")
        return samples

    def say(self, line):
        print(line, flush=True)


def ratios(samples, one, other, figure):
    """Returns the ratio of each round."""
    return [figure(a) / figure(b) for a, b in zip(samples[one], samples[other])]


# The floors of orders: processor time ÷ Fastify, rate ÷ Fastify, rate ÷ pgbench. A test key causes no
# mails, like the peers.
ORDERS = {
    ("PostgreSQL", "test key"): (0.30, 2.8, 0.85),
    ("SQLite", "test key"): (0.40, 3.6, None),
    ("PostgreSQL", "mails"): (0.70, 1.8, None),
    ("SQLite", "mails"): (None, None, None),
}


def orders(bench):
    """Orders without documents, with a test key and with three mails each, over 64 connections."""
    request = clients.order_request()

    def create(server):
        return clients.create(server, request, bench.seconds, bench.warmup)

    def service(wiring, kind):
        with bench.service(wiring, test=kind == "test key") as server:
            return create(server)

    def fastify():
        with bench.fastify() as server:
            return create(server)

    def pgbench():
        with bench.database() as database:
            bench.postgres.sql((HERE / "peers/schema.sql").read_text(), database)
            for seconds in (bench.warmup, bench.seconds):
                rate = bench.postgres.pgbench(database, HERE / "peers/order.sql", seconds)
            return Sample(rate * bench.seconds, bench.seconds)

    samples = bench.alternate({
        "pgbench": pgbench, "Fastify": fastify,
        **{one: lambda one=one: service(*one) for one in ORDERS}})
    rate, cpu = (lambda one: one.rate), (lambda one: one.cpu_of(1))
    rows = [Row(f"orders/s: {name}", [rate(one) for one in samples[name]])
            for name in ("pgbench", "Fastify")]
    rows.append(Row("CPU per order: Fastify", [cpu(one) * 1e6 for one in samples["Fastify"]],
                    unit=" µs"))
    for one, (most_cpu, least, least_of_pgbench) in ORDERS.items():
        name = ", ".join(one)
        rows += [
            Row(f"orders/s: {name}", [rate(sample) for sample in samples[one]]),
            Row(f"p99: {name}", [sample.p99 for sample in samples[one]], unit=" ms"),
            Row(f"CPU per order: {name}", [cpu(sample) * 1e6 for sample in samples[one]],
                unit=" µs"),
            Row(f"orders/s ÷ Fastify: {name}", ratios(samples, one, "Fastify", rate), least),
            Row(f"CPU per order ÷ Fastify: {name}", ratios(samples, one, "Fastify", cpu),
                most=most_cpu)]
        if least_of_pgbench:
            rows.append(Row(f"orders/s ÷ pgbench: {name}",
                            ratios(samples, one, "pgbench", rate), least_of_pgbench))
    return rows


def changes(bench):
    """Another notary for a random order, and new orders, over 64 connections."""
    rows = []
    for wiring in WIRINGS:
        def run(client, request):
            with bench.service(wiring) as server:
                return client(server, request, bench.seconds, bench.warmup)

        samples = bench.alternate({
            "orders": lambda: run(clients.create, clients.order_request()),
            "changes": lambda: run(clients.change, clients.change_request())})
        rate = lambda one: one.rate
        rows += [Row(f"changes/s on {wiring}", [one.rate for one in samples["changes"]]),
                 Row(f"changes/s ÷ orders/s on {wiring}",
                     ratios(samples, "changes", "orders", rate), 0.5)]
    return rows


# Documents of an order, their size, connections, and the floors: rate and processor time ÷ Fastify.
SHAPES = {"10 MB": (1, 10_000_000, 8, 1.4, 0.60), "1 MB × 20": (20, 1_000_000, 4, 1.6, 0.50),
          "100 KB": (1, 100_000, 32, 1.25, 0.65)}


def uploads(bench):
    """Orders with documents. The disk alone writes and syncs the same files."""
    rows = []
    for shape, (documents, size, connections, least, most) in SHAPES.items():
        content = clients.document(size)
        request = clients.form_request(documents, content)

        def create(server):
            return clients.uploads(server, request, bench.seconds, bench.warmup, connections)

        def service(wiring):
            with bench.service(wiring) as server:
                return create(server)

        def fastify():
            with bench.fastify() as server:
                return create(server)

        samples = bench.alternate({
            "disk": lambda: disk(content, documents, connections, bench.seconds),
            "Fastify": fastify,
            **{wiring: lambda wiring=wiring: service(wiring) for wiring in WIRINGS}})
        gigabytes = documents * size / 1e9
        rate, cpu = (lambda one: one.rate), (lambda one: one.cpu_of(1 / gigabytes))
        rows += [Row(f"{shape}, MB/s: {name}", [rate(one) * gigabytes * 1000 for one in of])
                 for name, of in samples.items()]
        rows += [Row(f"{shape}, CPU per GB: {name}", [cpu(one) for one in of], unit=" s")
                 for name, of in samples.items() if name != "disk"]
        rows.append(Row(f"{shape}, CPU per GB: client", unit=" s", values=[
            one.client_cpu / one.count / gigabytes for one in samples["PostgreSQL"]]))
        for wiring in WIRINGS:
            rows.append(Row(f"{shape} on {wiring} ÷ Fastify",
                            ratios(samples, wiring, "Fastify", rate), least))
            rows.append(Row(f"{shape} on {wiring}, CPU per GB ÷ Fastify",
                            ratios(samples, wiring, "Fastify", cpu), most=most))
    return rows


def disk(content, documents, connections, seconds):
    """Writes and syncs the files of orders, and their folder."""
    with folder() as place:
        done, started = [], time.monotonic()

        def work(number):
            at = os.open(place, os.O_RDONLY)
            for order in itertools.count():
                if time.monotonic() - started > seconds:
                    break
                for document in range(documents):
                    with open(place / f"{number}-{order}-{document}", "wb", buffering=0) as file:
                        file.write(content)
                        os.fdatasync(file)
                os.fsync(at)
                done.append(1)
            os.close(at)

        clients.in_threads(connections, work)()
        return Sample(len(done), time.monotonic() - started)


def reads(bench):
    """An order by its identifier, beside pgbench; a document of 10 MB, beside nginx."""
    size, rows = 10_000_000, []
    create = clients.order_request({"orderContactEmail": "escrow@title.example.com"})
    upload = clients.form_request(1, clients.document(size))
    for wiring in WIRINGS:
        with bench.service(wiring, keys=1) as service, folder() as place:
            clients.slow_uploads(service, upload, 1, 0.001)()
            stored = max((path for path in (service.data / "documents").rglob("*")
                          if path.is_file()), key=lambda path: path.stat().st_size)
            (place / "document").write_bytes(stored.read_bytes())
            clients.wrk(service, create, 1, 64)
            count = service.orders()
            while service.mails_pending():
                time.sleep(0.1)
            by_id = clients.head("GET", "/api/order/{{NUMBER}}")
            contestants = {
                wiring: lambda: clients.wrk(service, by_id, bench.seconds, 64, count)}
            if service.database:
                script = place / "read.sql"
                script.write_text(f"\\set id random(1, {count})\nSELECT * FROM orders WHERE id = :id;")
                place.chmod(0o755)
                contestants["pgbench"] = lambda: Sample(bench.seconds * bench.postgres.pgbench(
                    service.database, script, bench.seconds), bench.seconds)
            samples = bench.alternate(contestants)
            rows += [Row(f"orders read by identifier/s: {name}", [one.rate for one in of])
                     for name, of in samples.items()]
            if service.database:
                rows.append(Row("orders read by identifier, PostgreSQL ÷ pgbench",
                                ratios(samples, wiring, "pgbench", lambda one: one.rate)))
            nginx = Nginx(place)
            try:
                samples = bench.alternate({
                    "nginx": lambda: clients.downloads(nginx, "/document", size, bench.seconds, 1),
                    wiring: lambda: clients.downloads(service, "/api/order/1/documents/0", size,
                                                      bench.seconds, 1)})
            finally:
                nginx.stop()
            rows += [Row(f"documents of 10 MB, MB/s: {name}", [one.rate / 1e6 for one in of])
                     for name, of in samples.items()]
            rows.append(Row(f"documents of 10 MB, {wiring} ÷ nginx",
                            ratios(samples, wiring, "nginx", lambda one: one.rate)))
    return rows


def accesses(bench):
    """An order by its identifier on SQLite, with accesses stored and without."""
    if not bench.without:
        bench.say("left out: --without names no build that stores no accesses")
        return []
    create = clients.order_request({"orderContactEmail": "escrow@title.example.com"})
    by_id = clients.head("GET", "/api/order/{{NUMBER}}")
    with contextlib.ExitStack() as stack:
        def contestant(program):
            service = stack.enter_context(bench.service("SQLite", program=program, keys=1))
            clients.wrk(service, create, 1, 64)
            count = service.orders()
            while service.mails_pending():
                time.sleep(0.1)

            def read():
                before = service.process.cpu()
                sample = clients.wrk(service, by_id, bench.seconds, 64, count)
                time.sleep(3)  # The last accesses are stored later.
                return dataclasses.replace(sample, server_cpu=service.process.cpu() - before)

            read()
            return service, read

        programs = {"stored": bench.program, "without": bench.without}
        services = {name: contestant(program) for name, program in programs.items()}
        samples = bench.alternate({name: read for name, (_, read) in services.items()})
        rows_of = {name: service.rows("accesses") for name, (service, _) in services.items()}
    if rows_of["without"] or not rows_of["stored"]:
        raise SystemExit(f"rows of accesses: {rows_of}")
    cpu = lambda one: one.cpu_of(1)
    return [
        *(Row(f"reads/s, accesses {name}", [one.rate for one in of])
          for name, of in samples.items()),
        *(Row(f"CPU per read, accesses {name}", [cpu(one) * 1e6 for one in of], unit=" µs")
          for name, of in samples.items()),
        Row("CPU per read, stored ÷ without", ratios(samples, "stored", "without", cpu),
            most=1.10)]


class Watch:
    """Reads the age of the oldest mail every half second."""

    def __init__(self, service):
        self.service, self.ages, self.ended = service, [0.0], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.5):
            self.ages.append(self.service.metric("notary_orders_mail_oldest_age_seconds"))

    def stop(self):
        self.ended.set()
        self.thread.join()
        return max(self.ages)


def deliveries(bench):
    """Mails into the mail drop, while orders with three mails come at full rate and after them."""
    request, rows = clients.order_request(), []
    for wiring in WIRINGS:
        during, after, oldest = [], [], []
        for number in range(bench.rounds):
            bench.postgres.flush()
            with bench.service(wiring) as service:
                clients.wrk(service, request, bench.warmup, 64)
                before, started, watch = service.mails_delivered(), time.monotonic(), Watch(service)
                created = clients.wrk(service, request, bench.seconds, 64)
                middle, stopped = service.mails_delivered(), time.monotonic()
                oldest.append(watch.stop())
                while service.mails_pending() and time.monotonic() - stopped < bench.seconds:
                    time.sleep(0.1)
                ended = time.monotonic()
                during.append((middle - before) / (stopped - started))
                after.append((service.mails_delivered() - middle) / (ended - stopped))
            bench.say(f"round {number + 1}: {wiring}: {created.rate:.0f} orders/s, "
                      f"{during[-1]:.0f} mails/s during, {after[-1]:.0f} after")
        rows += [Row(f"mails/s at full order rate, {wiring}", during, 100),
                 Row(f"mails/s after it, {wiring}", after, 900),
                 Row(f"oldest mail at full order rate, {wiring}", oldest, unit=" s")]
    return rows


def slow(bench):
    """64 slow uploads of 20 × 10 MB, 2 MB/s each, and 100 orders/s beside them."""
    request, rows = clients.form_request(bench.documents, clients.document(10_000_000)), []
    pause = 0.032
    seconds = int(len(request) / 65536 * pause)
    for wiring in WIRINGS:
        bench.postgres.flush()
        with bench.service(wiring) as service:
            time.sleep(3)
            idle = service.process.memory()
            service.process.reset_peak()
            uploaded = clients.slow_uploads(service, request, 64, pause)
            times = clients.paced(service, 100, seconds)()
            uploaded()
            peak = service.process.memory("VmHWM")
            spooled = sum(path.stat().st_size for path in (service.data / "spool").rglob("*")
                          if path.is_file())
        bench.say(f"{wiring}: idle {idle:.1f} MiB, at most {peak:.1f} MiB, {len(times)} orders")
        rows += [
            Row(f"slow uploads, {wiring}: memory over idle", [peak - idle], most=64, unit=" MiB"),
            Row(f"slow uploads, {wiring}: p99 of orders", [clients.percentile(times, 0.99)],
                most=100, unit=" ms"),
            Row(f"slow uploads, {wiring}: bytes left in the spool", [spooled], most=0)]
    return rows


def small(bench):
    """Start, idle memory, and the embedded service on one core with 512 MiB."""
    rows = []
    for wiring in WIRINGS:
        with bench.service(wiring, start=False, keys=1) as service:
            starts = []
            for number in range(max(3, bench.rounds)):
                if number:
                    service.stop()
                starts.append(service.start().process.seconds_to_start * 1000)
            time.sleep(3)
            rows += [Row(f"start, {wiring}", starts, most=50, unit=" ms"),
                     Row(f"idle memory, {wiring}", [service.process.memory()], most=48,
                         unit=" MiB")]
    # The clients have the other cores. The limit covers all private memory that is writable, used
    # or not; the page cache is not limited.
    wrapper = ("prlimit", f"--data={512 << 20}", "taskset", "--cpu-list", "0")
    with others_than_first_core(), bench.service("SQLite", wrapper=wrapper) as service:
        watch = Watch(service)
        service.process.reset_peak()
        times = clients.paced(service, 500, bench.minute)()
        oldest, peak = watch.stop(), service.process.memory("VmHWM")
    return rows + [
        Row("one core, 500 orders/s: oldest mail", [oldest], most=5, unit=" s"),
        Row("one core, 500 orders/s: p99", [clients.percentile(times, 0.99)], most=20,
            unit=" ms"),
        Row("one core, 500 orders/s: memory", [peak], most=512, unit=" MiB")]


# Of the connections in a flood, and of those of a dozen addresses.
FLOODS = (1_536, 10_000)


def held(bench):
    """Connections that are held open without an end: the memory of each kind over idle."""
    rows = []
    with bench.service("SQLite", keys=1) as service:
        names = list(held_open.kinds(service))
    for count, name in itertools.product(FLOODS, names):
        with bench.service("SQLite", keys=1) as service:
            held_open.fill(service)
            time.sleep(3)
            grown = held_open.peak(service, count, held_open.kinds(service)[name])
            bench.say(f"{count} {name}: {grown:.1f} MiB")
            rows.append(Row(f"{count:,} {name}: over idle", [grown], most=400, unit=" MiB"))
    return rows


@contextlib.contextmanager
def others_than_first_core():
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores - {0} or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def instances(bench):
    """One, two and four instances on one PostgreSQL server, with 64 clients in all."""
    rows, request = [], clients.order_request()
    postgres = bench.postgres
    for count in (1, 2, 4):
        postgres.flush()
        with contextlib.ExitStack() as stack:
            database = stack.enter_context(bench.database())
            services = []
            for _ in range(count):
                place = stack.enter_context(folder())
                service = Service(bench.program, place, postgres, database)
                stack.callback(service.start().stop)
                services.append(service)
            postgres.sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            postgres.sql("SELECT pg_stat_statements_reset()")
            log, cpu = postgres.sql("SELECT pg_current_wal_lsn()"), postgres.process.cpu()
            samples = []
            clients.in_threads(count, lambda number: samples.append(clients.wrk(
                services[number], request, bench.seconds, 64 // count)))()
            created, cpu = sum(one.count for one in samples), postgres.process.cpu() - cpu
            written = float(postgres.sql(f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{log}')"))
            statements, sessions = json.loads(postgres.sql(
                "SELECT json_build_array(sum(calls), (SELECT count(*) FROM pg_stat_activity "
                f"WHERE datname = '{database}')) FROM pg_stat_statements"))
        name = f"{count} instances"
        rows += [
            Row(f"{name}: orders/s", [sum(one.rate for one in samples)]),
            Row(f"{name}: statements per order", [statements / created]),
            Row(f"{name}: CPU per order, instances", unit=" µs",
                values=[sum(one.server_cpu for one in samples) / created * 1e6]),
            Row(f"{name}: CPU per order, PostgreSQL", [cpu / created * 1e6], unit=" µs"),
            Row(f"{name}: log per order", [written / created], unit=" bytes"),
            Row(f"{name}: sessions", [sessions])]
    return rows


ALL = {one.__name__: one
       for one in (orders, changes, uploads, reads, accesses, deliveries, slow, small, held, instances)}
