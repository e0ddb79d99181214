"""Ports for the servers that tests start."""

import random
import socket
from contextlib import closing

LOW, HIGH = 10_000, 32_768  # below what Linux gives to connections


def free_port() -> int:
    """Return a port of loopback that no other test is given before this process ends.

    The kernel gives a port to the next who asks until a server listens on it, and a test would
    then talk to the server of another.
    """
    while True:
        port = random.randrange(LOW, HIGH)  # noqa: S311 - no secret
        if _reserve(port) and _is_free(port):
            return port


def _reserve(port: int) -> bool:
    """Tell whether nobody had this port's name, which is ours from now on."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0opsconsole-test-port-{port}")  # an abstract name, which ends with its process
    except OSError:
        name.close()
        return False
    name.detach()
    return True


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
