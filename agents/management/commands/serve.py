"""Serve the pages and live updates: one web process."""

import socket
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand

from agents.management.exit_codes import BadUsage

STREAMS_END = 2  # seconds for open pages; a stream that nobody reads would keep the server alive


class Command(BaseCommand):
    help = "Serve the pages until told to stop (Ctrl-C, SIGTERM). Run collectstatic first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.OPSCONSOLE_HOST)
        parser.add_argument("--port", type=int, default=settings.OPSCONSOLE_PORT)

    def handle(self, *, host: str, port: int, **options: Any) -> None:
        _must_be_address(host, port)
        module, _, name = settings.ASGI_APPLICATION.rpartition(".")
        config = uvicorn.Config(
            f"{module}:{name}",
            host=host,
            port=port,
            lifespan="on",  # calls of agents that it carries out
            # Otherwise a client on this machine, or behind its proxy, could name its own address.
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=STREAMS_END,
        )
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()


def _must_be_address(host: str, port: int) -> None:
    """Refuse what is no address of any host. Raises CommandError."""
    must_be_port(port)
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadUsage(
            f"{host} is not an address to serve on ({error.strerror}): set OPSCONSOLE_HOST."
        ) from error


def must_be_port(port: int) -> None:
    """Refuse a number that is no port. Raises CommandError."""
    if not 1 <= port <= 65535:
        raise BadUsage(f"{port} is not a port: give a number from 1 to 65535.")
