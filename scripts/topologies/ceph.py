#!/usr/bin/env python3
"""Kills the storage daemons of a Ceph cluster while the service stores documents in it."""

import json
import os
import signal
import uuid

from topology import Audit, Load, Machine, Process, Service, accepts, mail_drop, run, wait_until
from topology.uploads import (
    KILL_LIMIT, LargeDocuments, create_bucket, lose_gateway, lose_server, lose_service,
    wait_for_uploads)

BUCKET, KEY, SECRET = "documents", "service", "service-secret"
GATEWAY, DAEMONS = 7480, (0, 1, 2)
# Limit for the longest time without an order with documents when a server hangs, in seconds.
FREEZE_LIMIT = 60.0

# A node of its own is missing, so copies and reports of failures are per daemon. The loopback
# network of the sandbox replaces authentication between the daemons.
CONF = """
[global]
debug rgw = 0
debug rgw access = 0
debug beast = 0
fsid = {fsid}
mon host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
run dir = {folder}
admin socket = {folder}/$name.asok
crash dir = {folder}
pid file =
log file =
log to stderr = true
err to stderr = true
mon cluster log file = {folder}/cluster.log
mon data = {folder}/mon
mon data avail crit = 1
mon osd reporter subtree level = osd
mgr data = {folder}/mgr
mgr initial modules =
osd data = {folder}/osd.$id
osd crush chooseleaf type = 0
osd pool default size = 3
osd pool default min size = 2
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd recovery sleep = 0
osd recovery max active = 20
osd max backfills = 10
bluestore block create = true
bluestore block size = 3221225472
"""


class Ceph:
    """A monitor, a manager, three storage daemons with three copies of each object, and the S3
    gateway."""

    def __init__(self, machine: Machine) -> None:
        self._machine, fsid = machine, uuid.uuid4()
        self._folder = machine.make_folder("ceph")
        conf = self._folder / "ceph.conf"
        conf.write_text(CONF.format(fsid=fsid, folder=self._folder))
        self._environment = {"PATH": os.environ["PATH"], "CEPH_CONF": str(conf)}
        for name in ("mon", "mgr", *(f"osd.{number}" for number in DAEMONS)):
            (self._folder / name).mkdir()
        monitors = self._folder / "monmap"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a",
                  "[v2:127.0.0.1:3300,v1:127.0.0.1:6789]", monitors)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors)
        self._start("mon", "ceph-mon", "-i", "a", "-f", port=3300)
        self._start("mgr", "ceph-mgr", "-i", "x", "-f")
        for number in DAEMONS:
            identity = uuid.uuid4()
            self._run("ceph", "osd", "new", identity)
            self._run("ceph-osd", "-i", number, "--mkfs", "--osd-uuid", identity)
        self.daemons = {number: self.start_daemon(number) for number in DAEMONS}
        self.wait_for_daemons()
        self._run("radosgw-admin", "user", "create", "--uid=orders", "--display-name=orders",
                  f"--access-key={KEY}", f"--secret-key={SECRET}")
        self.gateway = self.start_gateway()
        create_bucket(machine, f"http://127.0.0.1:{GATEWAY}", BUCKET, f"{KEY}:{SECRET}")

    def start_daemon(self, number: int) -> Process:
        return self._start(f"osd-{number}", "ceph-osd", "-i", number, "-f")

    def start_gateway(self) -> Process:
        return self._start("radosgw", "radosgw", "-n", "client.rgw", "-f", "--rgw-frontends",
                           f"beast endpoint=127.0.0.1:{GATEWAY}", port=GATEWAY)

    def wait_for_daemons(self) -> None:
        """Waits until all daemons are up and each object has all its copies."""
        def is_whole() -> bool:
            status = json.loads(self._run("ceph", "status", "--format=json"))
            states = {part for state in status["pgmap"].get("pgs_by_state", ())
                      for part in state["state_name"].split("+")}
            return (status["osdmap"]["num_up_osds"] == len(DAEMONS)
                    and states <= {"active", "clean", "scrubbing", "deep"})

        wait_until("each object has all its copies", is_whole, 200.0)

    def _run(self, *argv: object) -> str:
        return self._machine.run(*argv, env=self._environment)

    def _start(self, name: str, *argv: object, port: int = 0) -> Process:
        return self._machine.start(name, *argv, env=self._environment,
                                   ready=(lambda: accepts(port)) if port else None)


def main(machine, arguments, figures):
    cluster = Ceph(machine)
    service = Service(machine, "service", {
        "NOTARY_ORDERS_LOG_LEVEL": "warn",
        "NOTARY_ORDERS_DOCUMENTS_URL":
            f"s3://{BUCKET}/orders?endpoint=http://127.0.0.1:{GATEWAY}&region=default",
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
    }).start()
    load = Load([service.url], service.issue_key(), clients=4, pause=0.1).start()
    large = LargeDocuments(service.url, service.issue_key()).start()
    wait_for_uploads(load, 200)

    for number in DAEMONS:
        def give_back(number=number):
            cluster.daemons[number] = cluster.start_daemon(number)
            cluster.wait_for_daemons()

        lose_server(load, figures, f"storage daemon {number + 1} killed",
                    cluster.daemons[number].kill, give_back, at_most=KILL_LIMIT)

    frozen = cluster.daemons[0]
    lose_server(load, figures, "storage daemon 1 frozen", lambda: frozen.signal(signal.SIGSTOP),
                lambda: frozen.signal(signal.SIGCONT), at_most=FREEZE_LIMIT)
    cluster.wait_for_daemons()

    lose_gateway(load, figures, cluster)
    lose_service(load, service)

    load.stop()
    large.stop()
    # Each document must be readable without one of its copies.
    cluster.wait_for_daemons()
    cluster.daemons[2].kill()
    figures.add_load(load)
    figures.add_audit(Audit.of(load, mail_drop(service.mail_folder())))
    large.add_to(figures)


if __name__ == "__main__":
    run(main, __doc__, packages={
        "curl": "curl", "ceph-mon": "ceph-mon", "ceph-mgr": "ceph-mgr", "ceph-osd": "ceph-osd",
        "radosgw": "radosgw",
    })
