#!/usr/bin/env python3
"""Sends the mails of orders to a Postfix whose queue is full, and which is stopped and killed."""

import os
import re
import statistics
import time
from collections import Counter
from pathlib import Path

from topology import Audit, Load, Machine, Process, Service, accepts, run, wait_until
from topology.processes import kill_tree

# The domain of the addresses in the load.
DOMAIN, USER, PASSWORD = "title.example.com", "orders", "relay-secret"
PORT = 2587
# The file system of the queue, and the largest mail. Postfix rejects mails while less than one and
# a half times the largest mail is free.
QUEUE_BYTES, MAIL_BYTES = 24 * 1024 * 1024, 1024 * 1024
# Seconds of each fault, and the limit for the waiting mails to be sent afterwards.
FAULT, RECOVERY_LIMIT = 20.0, 120.0
# Limits of each phase: acknowledged orders, and milliseconds of an order.
MIN_ORDERS, LATENCY_LIMIT = 100, 2000.0

MAIN_CF = """
compatibility_level = 3.6
queue_directory = {queue}
data_directory = {data}
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
maillog_file = /dev/stdout
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = relay.example.com
mydestination =
mynetworks =
alias_maps =
notify_classes =
message_size_limit = {size}
mailbox_size_limit = 0
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {mails}
virtual_mailbox_maps = static:all/
virtual_mailbox_limit = 0
virtual_minimum_uid = 1
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_tls_security_level = may
smtpd_tls_auth_only = yes
smtpd_tls_cert_file = {certificate}
smtpd_tls_key_file = {key}
smtpd_sasl_auth_enable = yes
smtpd_sasl_path = smtpd
smtpd_sasl_local_domain = {domain}
"""

# Every service with its usual entry, and a TCP port instead of port 25.
MASTER_CF = """
{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
local unix - n n - - local
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""


class Postfix:
    """A relay that requires STARTTLS and a login, and delivers into one Maildir."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._conf = machine.make_folder("conf")
        self.queue = machine.make_folder("queue")
        self._mails = machine.make_folder("mails", "nobody")
        machine.run("mount", "-t", "tmpfs", "-o", f"size={QUEUE_BYTES},mode=755", "queue",
                    self.queue)
        self._ballast = self.queue / "ballast"
        self.certificate, key = self._conf / "relay.pem", self._conf / "relay.key"
        machine.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-addext", "basicConstraints=critical,CA:FALSE",
                    "-keyout", key, "-out", self.certificate)
        users = machine.make_folder("users", "postfix") / "sasldb2"
        machine.run("sh", "-c", f"printf {PASSWORD} | saslpasswd2 -p -c -f {users} -u {DOMAIN}"
                    f" {USER} && chown postfix: {users}")
        # The only place where Debian's libraries look. The mount is part of the sandbox.
        machine.run("mount", "--bind", users, "/etc/sasldb2")
        nobody = self._mails.stat()
        (self._conf / "main.cf").write_text(MAIN_CF.format(
            queue=self.queue, data=machine.make_folder("postfix-data", "postfix"), size=MAIL_BYTES,
            domain=DOMAIN, mails=self._mails, uid=nobody.st_uid, gid=nobody.st_gid,
            certificate=self.certificate, key=key))
        (self._conf / "master.cf").write_text(MASTER_CF.format(port=f"127.0.0.1:{PORT}"))
        # The address and the `Message-ID` of each mail, by its file.
        self._seen: dict[str, tuple[str, str]] = {}
        self.process = self.start()

    def url(self) -> str:
        return f"smtp://{USER}:{PASSWORD}@localhost:{PORT}?tls=required&ca={self.certificate}"

    def start(self) -> Process:
        # Makes missing folders of the queue.
        self._machine.run("postfix", "-c", self._conf, "check")
        self.process = self._machine.start("postfix", "/usr/lib/postfix/sbin/master", "-s", "-c",
                                           self._conf, ready=lambda: accepts(PORT))
        return self.process

    def stop(self) -> None:
        """Ends Postfix in order: mails in progress are accepted or rejected."""
        self.process.stop()

    def kill(self) -> None:
        """Kills the master and all its services, as a crash of the machine would."""
        kill_tree(self.process.pid)
        self.process.wait(10.0)

    def fill(self) -> None:
        """Leaves less space for the queue than Postfix needs: 452 4.3.1."""
        space = os.statvfs(self.queue)
        self._ballast.write_bytes(bytes(space.f_bavail * space.f_bsize - MAIL_BYTES))

    def empty(self) -> None:
        self._ballast.unlink()

    def mails(self) -> Counter:
        """Counts the delivered mails of each address."""
        return Counter(address for address, _ in self._read())

    def changed_repeats(self) -> int:
        """Counts addresses whose repeated mails do not all have the same `Message-ID`."""
        identifiers: dict[str, set[str]] = {}
        for address, identifier in self._read():
            identifiers.setdefault(address, set()).add(identifier)
        return sum(len(found) > 1 for found in identifiers.values())

    def _read(self) -> list[tuple[str, str]]:
        """Returns the address and the `Message-ID` of every mail. Each mail is read once."""
        for path in (self._mails / "all/new").glob("*"):
            if path.name not in self._seen:
                mail = path.read_bytes()
                self._seen[path.name] = (
                    _header(mail, b"Delivered-To"), _header(mail, b"Message-ID"))
        return list(self._seen.values())


def _header(mail: bytes, name: bytes) -> str:
    found = re.search(rb"^" + name + rb":\s*(\S+)", mail, re.MULTILINE | re.IGNORECASE)
    return found[1].decode() if found else ""


def main(machine, arguments, figures):
    relay = Postfix(machine)
    service = Service(machine, "service", {
        "NOTARY_ORDERS_LOG_LEVEL": "warn",
        "NOTARY_ORDERS_MAIL_URL": relay.url(),
        "NOTARY_ORDERS_MAIL_FROM": f"orders@{DOMAIN}",
    }).start()
    load = Load([service.url], service.issue_key(), clients=6, pause=0.1).start()
    wait_until("mails arrive", relay.mails, 30.0)

    def pending() -> float:
        return service.metric("notary_orders_mails_pending")

    def phase(what: str, fault, mend) -> None:
        """Runs the load for a while in a fault, and measures it until all mails have arrived."""
        before, begin = sum(load.failures.values()), time.monotonic()
        fault()
        time.sleep(FAULT)
        waiting = pending()
        _add_latency(figures, load, what, begin)
        figures.add(f"{what}: orders that were not acknowledged at once",
                    sum(load.failures.values()) - before, at_most=0)
        figures.add(f"{what}: mails that waited at its end", int(waiting))
        mended = time.monotonic()
        mend()
        # The load goes on, so some mails are always in progress.
        wait_until("the waiting mails are sent", lambda: pending() < 20, 2 * RECOVERY_LIMIT)
        figures.add(f"{what}: time until they were sent", time.monotonic() - mended, "s",
                    at_most=RECOVERY_LIMIT)

    phase("no fault", lambda: None, lambda: None)
    phase("queue full (452)", relay.fill, relay.empty)
    phase("Postfix stopped", relay.stop, relay.start)
    phase("Postfix killed", relay.kill, relay.start)

    relay.fill()
    load.wait_for(100)
    service.process.kill()
    service.start()
    relay.empty()

    load.stop()
    figures.add_load(load)
    figures.add_audit(Audit.of(load, relay.mails))
    figures.add("addresses whose repeated mails differ in Message-ID", relay.changed_repeats(),
                at_most=0)
    figures.add("mails that failed for good",
                int(service.metric("notary_orders_mails_failed")), at_most=0)
    outcomes = re.findall(r'^notary_orders_mails_total{outcome="(\w+)"} (\d+)',
                          service.ops("/metrics")[1], re.MULTILINE)
    figures.add("attempts by outcome since the last start",
                ", ".join(f"{count} {outcome}" for outcome, count in outcomes if count != "0"))


def _add_latency(figures, load, what, since):
    times = sorted(order.milliseconds for order in list(load.acknowledged) if order.at >= since)
    figures.add(f"{what}: orders acknowledged", len(times), at_least=MIN_ORDERS)
    figures.add(f"{what}: p99 of an order", statistics.quantiles(times, n=100)[98], "ms",
                at_most=LATENCY_LIMIT)


if __name__ == "__main__":
    run(main, __doc__, packages={
        "/usr/sbin/postfix": "postfix", "saslpasswd2": "sasl2-bin", "openssl": "openssl",
        "/usr/lib/*/sasl2/libplain.so": "libsasl2-modules",
    })
