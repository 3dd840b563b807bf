"""A Prometheus server that scrapes /metrics of `heapprof serve`.

    with Prometheus(program, directory, address) as scraper:
        scraper.values("heapprof_live_bytes")
"""

import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

TIMEOUT_S = 60  # of one answer


class Prometheus:
    def __init__(self, program, directory, address):
        """`address`: what `heapprof serve` prints, with its token. `directory`: for the files of this server."""
        address = urllib.parse.urlsplit(address)
        (token,) = urllib.parse.parse_qs(address.query)["token"]
        directory = Path(directory)
        # JSON is YAML. An answer has as much time as there is between two questions: some take a second on a busy
        # machine.
        (directory / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "3s"},
            "scrape_configs": [{"job_name": "heapprof", "authorization": {"type": "Bearer", "credentials": token},
                                "static_configs": [{"targets": [address.netloc]}]}]}))
        self.log_path = directory / "prometheus.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [program, "--config.file=prometheus.yml", "--storage.tsdb.path=samples",
                 "--web.listen-address=127.0.0.1:0"], cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def log(self):
        """The last lines of its log."""
        return self.log_path.read_text(errors="replace")[-2000:]

    def port(self):
        """The port that the system chose, which the server does not print; None: it does not listen yet."""
        links = []
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                links.append(os.readlink(descriptor))
            except OSError:
                continue  # it was closed in between
        # proc_net_tcp(5): local address, state (0A: listening) and inode.
        for line in Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in links:
                return int(words[1].rpartition(":")[2], 16)
        return None

    def ask(self, path, **parameters):
        """What its API answers; None: it does not answer yet."""
        if self.process.poll() is not None:
            raise RuntimeError(f"prometheus has ended: {self.log()}")
        port = self.port()
        if port is None:
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}",
                                        timeout=TIMEOUT_S) as answer:
                return json.load(answer)["data"]
        except OSError:  # it is not ready
            return None

    def series(self, query):
        """The series of a query: [{"metric": labels, "value": ..., or "values": ...}]."""
        return (self.ask("query", query=query) or {"result": []})["result"]

    def values(self, query):
        """The newest value of each series of a query."""
        return [float(one["value"][1]) for one in self.series(query)]

    def samples(self, name, period="5m"):
        """The values of the only series of this name in the last time, the oldest first."""
        found = self.series(f"{name}[{period}]")
        return [float(value) for _, value in found[0]["values"]] if len(found) == 1 else []
