#!/usr/bin/env python3
"""Takes the servers of a SeaweedFS cluster away while the service stores documents in it."""

import json
import os
import signal
import urllib.request
from pathlib import Path

from topology import (
    Audit, Load, Machine, Process, Service, accepts, mail_drop, run, venv, wait_until)
from topology.uploads import (
    KILL_LIMIT, LargeDocuments, create_bucket, lose_gateway, lose_server, lose_service,
    wait_for_uploads)

BUCKET, KEY, SECRET = "documents", "service", "service-secret"
ADMIN_KEY, ADMIN_SECRET = "admin", "admin-secret"
MASTER, FILER, GATEWAY = 9333, 8888, 8333
VOLUME_SERVERS = (8080, 8081, 8082)
# Limit for the longest time without an order with documents when a server hangs, in seconds.
FREEZE_LIMIT = 120.0


class SeaweedFs:
    """A master, three volume servers, a filer and an S3 gateway. Each object has two copies."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._environment = {"PATH": f"{machine.prepared}/bin:{os.environ['PATH']}",
                             "HOME": str(machine.folder)}
        self._start("master", f"-port={MASTER}", f"-mdir={machine.make_folder('master-data')}",
                    "-peers=none", "-defaultReplication=001", "-volumeSizeLimitMB=64",
                    "-telemetry=false", port=MASTER)
        self._folders = {port: machine.make_folder(f"volume-{port}-data")
                         for port in VOLUME_SERVERS}
        self.volumes = {port: self.start_volume(port) for port in VOLUME_SERVERS}
        self.wait_for_volumes()
        self._start("filer", f"-port={FILER}", f"-master=127.0.0.1:{MASTER}",
                    f"-defaultStoreDir={machine.make_folder('filer-data')}", port=FILER)
        # Without this, an acknowledged object is only in the memory of the volume servers.
        self._shell("fs.configure -locationPrefix=/buckets/ -fsync -apply")
        self._identities = machine.folder / "identities.json"
        self._identities.write_text(json.dumps({"identities": [
            _identity("admin", ADMIN_KEY, ADMIN_SECRET, ["Admin"]),
            _identity("service", KEY, SECRET, [f"Read:{BUCKET}", f"Write:{BUCKET}"]),
        ]}))
        self.gateway = self.start_gateway()
        create_bucket(machine, f"http://127.0.0.1:{GATEWAY}", BUCKET, f"{ADMIN_KEY}:{ADMIN_SECRET}")

    def start_volume(self, port: int) -> Process:
        return self._start("volume", f"-port={port}", f"-dir={self._folders[port]}", "-max=40",
                           f"-master=127.0.0.1:{MASTER}", name=f"volume-{port}", port=port)

    def start_gateway(self) -> Process:
        return self._start("s3", f"-port={GATEWAY}", f"-filer=127.0.0.1:{FILER}",
                           f"-config={self._identities}", "-port.iceberg=0", "-port.lance=0",
                           ip="-ip.bind", port=GATEWAY)

    def wait_for_volumes(self) -> None:
        """Waits until the master knows all volume servers."""
        def count() -> int:
            url = f"http://127.0.0.1:{MASTER}/dir/status"
            with urllib.request.urlopen(url, timeout=5) as answer:
                topology = json.load(answer)["Topology"]
            return sum(len(rack["DataNodes"] or ()) for center in topology["DataCenters"] or ()
                       for rack in center["Racks"] or ())

        wait_until("the master knows the volume servers", lambda: count() == len(VOLUME_SERVERS))

    def _shell(self, command: str) -> None:
        self._machine.run("sh", "-c", f"echo '{command}' | weed shell -master 127.0.0.1:{MASTER}"
                          f" -filer 127.0.0.1:{FILER}", env=self._environment)

    def _start(self, command: str, *options: str, port: int, name: str = "",
               ip: str = "-ip") -> Process:
        return self._machine.start(
            name or command, "weed", "-logtostderr=true", command, f"{ip}=127.0.0.1", *options,
            env=self._environment, ready=lambda: accepts(port))


def main(machine, arguments, figures):
    cluster = SeaweedFs(machine)
    service = Service(machine, "service", {
        "NOTARY_ORDERS_LOG_LEVEL": "warn",
        "NOTARY_ORDERS_DOCUMENTS_URL":
            f"s3://{BUCKET}/orders?endpoint=http://127.0.0.1:{GATEWAY}",
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
    }).start()
    load = Load([service.url], service.issue_key(), clients=6).start()
    large = LargeDocuments(service.url, service.issue_key()).start()
    wait_for_uploads(load, 200)

    for number, port in enumerate(VOLUME_SERVERS, 1):
        def give_back(port=port):
            cluster.volumes[port] = cluster.start_volume(port)
            cluster.wait_for_volumes()

        lose_server(load, figures, f"volume server {number} killed", cluster.volumes[port].kill,
                    give_back, at_most=KILL_LIMIT)

    frozen = cluster.volumes[VOLUME_SERVERS[0]]
    lose_server(load, figures, "volume server 1 frozen", lambda: frozen.signal(signal.SIGSTOP),
                lambda: frozen.signal(signal.SIGCONT), at_most=FREEZE_LIMIT)
    cluster.wait_for_volumes()

    lose_gateway(load, figures, cluster)
    lose_service(load, service)

    load.stop()
    large.stop()
    # Each document must be readable from either of its copies.
    cluster.volumes[VOLUME_SERVERS[2]].kill()
    figures.add_load(load)
    figures.add_audit(Audit.of(load, mail_drop(service.mail_folder())))
    large.add_to(figures)


def _identity(name: str, key: str, secret: str, actions: list[str]) -> dict:
    return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}],
            "actions": actions}


if __name__ == "__main__":
    run(main, __doc__, packages={"curl": "curl"},
        prepare=lambda: venv(Path(__file__).with_suffix(".txt")))
