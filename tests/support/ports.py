"""TCP ports for programs of the tests."""

import functools
import socket
import unittest
from pathlib import Path

_reservations = []  # sockets, which are open until the process ends


def reserve(port):
    """Whether no other process of a test has the port. It is this one's until it ends."""
    reservation = socket.socket(socket.AF_UNIX)
    try:
        # An abstract name, which exists in the same network namespace as the port.
        reservation.bind(f"\0heapprof-test-port-{port}")
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    return True


def is_free(port):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the programs of the tests
        try:
            server.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def ephemeral_ports():
    """Those that programs get which ask for any, and for the other end of a connection."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    return range(first, last + 1)


def free_port():
    """A free port that no other test uses, and that no other program gets unless it asks for its number. (Where all
    ports are ephemeral, it can.)"""
    ephemeral = ephemeral_ports()
    for port in (*range(ephemeral[0] - 1, 1023, -1), *range(ephemeral[-1] + 1, 1 << 16), *ephemeral):
        if is_free(port) and reserve(port):
            return port
    raise unittest.SkipTest("no TCP port is free")


@functools.cache
def privileged_port():
    """A free port that only programs with cap_net_bind_service may bind, and that no other test uses."""
    start = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    for port in range(min(start, 1024) - 1, 0, -1):
        if is_free(port) and reserve(port):
            return port
    raise unittest.SkipTest(f"no free TCP port needs a privilege: net.ipv4.ip_unprivileged_port_start is {start}")
