"""A bus of messages (D-Bus), as graphical programs expect one in a session. Its socket is in a folder of its own, which
is removed: dbus-run-session has it in /tmp, and leaves it there when it is killed."""

import contextlib
import select
import subprocess
import tempfile

import process_group

START_S = 60


@contextlib.contextmanager
def session_bus(output, environment):
    """Yields the environment with the address of the bus. Messages of the bus are written to `output`."""
    with tempfile.TemporaryDirectory(prefix="heapprof-bus-") as folder:
        bus = process_group.start(["dbus-daemon", "--session", "--nofork", "--nopidfile", "--nosyslog",
                                   "--print-address", f"--address=unix:dir={folder}"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=output, env=environment)
        try:
            if not select.select([bus.stdout], [], [], START_S)[0]:
                raise AssertionError(f"dbus-daemon does not start within {START_S} s")
            address = bus.stdout.readline().decode().strip()
            if not address:
                raise AssertionError(f"dbus-daemon does not start: exit status {bus.wait(START_S)}")
            yield {**environment, "DBUS_SESSION_BUS_ADDRESS": address}
        finally:
            process_group.end(bus)
            bus.stdout.close()
