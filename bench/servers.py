"""The servers that are measured: PostgreSQL, the service, its peer in Fastify, and nginx."""

import glob
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import urllib.request

from machine import TARGET, Process, free_address

HERE = pathlib.Path(__file__).resolve().parent
# Durable commits; enough memory for all tables; sockets only in the folder and on loopback.
SETTINGS = {
    "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "ssl": "off",
    "shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "1000",
    "listen_addresses": "127.0.0.1", "shared_preload_libraries": "pg_stat_statements",
}


class Postgres:
    """A PostgreSQL server of its own, which runs as `postgres` when this script runs as root."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_address().split(":")[1]
        self.programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.user = []
        if os.getuid() == 0:
            self.user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.run("initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "--no-sync")
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        self.process = Process(
            f"{self.programs}/postgres", "-D", folder / "data", "-k", folder, "-p", self.port,
            *settings, log=folder / "log", prefix=self.user, end="INT",
            ready=lambda: (folder / f".s.PGSQL.{self.port}").exists() and self.accepts())
        self.databases = 0

    def accepts(self):
        command = [f"{self.programs}/pg_isready", "-q", "-h", self.folder, "-p", self.port]
        return subprocess.run(command, check=False).returncode == 0

    def run(self, program, *arguments):
        prefix = ["setpriv", *self.user] if self.user else []
        command = [*prefix, f"{self.programs}/{program}", *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if ran.returncode:
            raise SystemExit(f"{command}: {ran.stderr}")
        return ran.stdout.strip()

    def sql(self, query, database="postgres"):
        return self.run("psql", "-XAtq", "-vON_ERROR_STOP=1", "-h", self.folder, "-p", self.port,
                        "-U", "postgres", "-c", query, database)

    def new_database(self):
        self.databases += 1
        name = f"bench{self.databases}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def drop(self, database):
        self.sql(f"DROP DATABASE {database} WITH (FORCE)")

    def url(self, database):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def flush(self):
        """Writes everything to the disk, so that no pending write slows down the next round."""
        self.sql("CHECKPOINT")
        os.sync()

    def pgbench(self, database, script, seconds, clients=32):
        """Returns the transactions per second, and the processor seconds of pgbench."""
        output = self.run("pgbench", "-n", "-Mprepared", f"-f{script}", f"-c{clients}", "-j2",
                          f"-T{seconds}", "-h", self.folder, "-p", self.port, "-U", "postgres",
                          database)
        return float(re.search(r"tps = ([\d.]+)", output)[1])


class Service:
    """An instance of the service with data of its own, or with those of another."""

    def __init__(self, program, folder, postgres=None, database=None, keys=8, wrapper=(), flags=(), test=False):
        self.program, self.data = program, folder
        self.postgres, self.database = postgres, database
        self.api, self.ops = free_address(), free_address()
        self.settings = [f"--data-dir={folder}", *flags]
        if database:
            self.settings.append(f"--database-url={postgres.url(database)}")
        # Only what would limit a single client on one machine is switched off. Variables, because
        # another version may not know one of them.
        self.env = {
            "NOTARY_ORDERS_RATE_PER_SECOND": "0", "NOTARY_ORDERS_READS_RATE_PER_SECOND": "0",
            "NOTARY_ORDERS_MAILS_PER_RECIPIENT_HOUR": "0", "NOTARY_ORDERS_SPOOL_MB": "32768",
            "NOTARY_ORDERS_DRAIN_SECS": "0", "NOTARY_ORDERS_LOG_FORMAT": "json",
            "NOTARY_ORDERS_LOG_LEVEL": "info",
        }
        self.keys = []
        if keys:
            self.command("migrate")
            mode = ["--test"] if test else []
            self.keys = [self.issue(number, *mode) for number in range(keys)]
        self.wrapper = wrapper
        self.process = None

    def command(self, *arguments):
        ran = subprocess.run([self.program, *arguments, *self.settings], text=True, check=False,
                             capture_output=True, env={**os.environ, **self.env})
        if ran.returncode:
            raise SystemExit(ran.stderr)
        return ran.stdout.strip()

    def issue(self, name, *flags):
        return self.command("keys", "issue", f"--name=bench-{name}", *flags)

    def start(self):
        self.process = Process(
            *self.wrapper, self.program, *self.settings, f"--listen={self.api}",
            f"--ops-listen={self.ops}", env=self.env, log=self.data / "service.log",
            ready=self.is_ready)
        return self

    def stop(self):
        self.process.stop()

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.ops}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def metric(self, name, label=""):
        """Returns the sum of a metric's series whose labels contain this one."""
        with urllib.request.urlopen(f"http://{self.ops}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if re.match(rf"{name}[{{ ]", line) and label in line]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def mails_delivered(self):
        return self.metric("notary_orders_mails_total", 'outcome="delivered"')

    def mails_pending(self):
        """Counts the mails in the queue, and the events that will become mails."""
        return self.metric("notary_orders_mails_pending") + self.metric(
            "notary_orders_events_pending")

    def orders(self):
        return self.rows("orders")

    def rows(self, table):
        query = f"SELECT count(*) FROM {table}"
        if self.database:
            return int(self.postgres.sql(query, self.database))
        database = sqlite3.connect(self.data / "notary-orders.sqlite", timeout=30)
        try:
            return database.execute(query).fetchone()[0]
        finally:
            database.close()


class Fastify:
    """The service of `peers/server.js`: two processes, and PostgreSQL with a plain schema."""

    def __init__(self, folder, postgres, database):
        self.postgres, self.database, self.api = postgres, database, free_address()
        postgres.sql((HERE / "peers/schema.sql").read_text(), database)
        self.keys = [os.urandom(24).hex()]
        documents = folder / "documents"
        documents.mkdir()
        self.process = Process(
            "node", self.installed() / "server.js", log=folder / "log",
            env={"NODE_ENV": "production", "PORT": self.api.split(":")[1], "KEY": self.keys[0],
                 "DATABASE_URL": postgres.url(database), "DOCUMENTS": str(documents)},
            ready=lambda: "listening" in (folder / "log").read_text())

    @staticmethod
    def installed():
        """Installs the packages once, in the folder of the build."""
        place = TARGET / "peers"
        place.mkdir(parents=True, exist_ok=True)
        lock = place / "installed.json"
        wanted = (HERE / "peers/package-lock.json").read_text()
        for file in (HERE / "peers").iterdir():
            shutil.copy(file, place)
        if not lock.exists() or lock.read_text() != wanted:
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
                            "--loglevel=error"], cwd=place, check=True, stdout=subprocess.DEVNULL)
            lock.write_text(wanted)
        return place

    def stop(self):
        self.process.stop()

    def orders(self):
        return int(self.postgres.sql("SELECT count(*) FROM orders", self.database))


class Nginx:
    """nginx, which serves the files of a folder: a worker for each core, sendfile, no log."""

    def __init__(self, folder):
        self.api, self.keys = free_address(), []
        user = "user root;" if os.getuid() == 0 else ""
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"{user} daemon off; worker_processes auto; pid {folder}/nginx.pid; events {{}}"
            f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;"
            f"{temporary} server {{ listen {self.api}; root {folder}; }} }}")
        host, port = self.api.split(":")
        self.process = Process(
            "/usr/sbin/nginx", "-p", folder, "-c", "nginx.conf", "-e", "error.log",
            log=folder / "log", ready=lambda: socket.socket().connect_ex((host, int(port))) == 0)

    def stop(self):
        self.process.stop()
