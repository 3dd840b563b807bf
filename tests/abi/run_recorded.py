"""Runs a program with preloaded libraries, and returns its output and the reports of the counting recorder."""
import collections
import os
import subprocess
import tempfile

Done = collections.namedtuple("Done", "status output errors reports")


def run(command, preload, **variables):
    """`preload`: paths in the order of LD_PRELOAD. There are no reports without the counting recorder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEAPPROF_")}
    environment.pop("LD_PRELOAD", None)
    environment.update(variables)
    if preload:
        environment["LD_PRELOAD"] = ":".join(os.path.abspath(path) for path in preload)
    with tempfile.TemporaryFile() as reports:
        environment["HEAPPROF_REPORTS"] = str(reports.fileno())
        done = subprocess.run(command, env=environment, pass_fds=[reports.fileno()], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        reports.seek(0)
        lines = reports.read().decode().splitlines()
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode(), lines)
