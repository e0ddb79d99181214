"""Serve the pages and live updates: one web process."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand

STREAMS_END = 2  # seconds for open pages; a stream that nobody reads would keep the server alive


class Command(BaseCommand):
    help = "Serve the pages until told to stop (Ctrl-C, SIGTERM). Run collectstatic before."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.OPSCONSOLE_HOST)
        parser.add_argument("--port", type=int, default=settings.OPSCONSOLE_PORT)

    def handle(self, *, host: str, port: int, **options: Any) -> None:
        module, _, name = settings.ASGI_APPLICATION.rpartition(".")
        config = uvicorn.Config(
            f"{module}:{name}",
            host=host,
            port=port,
            lifespan="off",
            # Else a client on this machine, or behind a proxy on it, names its own address.
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=STREAMS_END,
        )
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()
