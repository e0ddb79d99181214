"""Press a kill switch from the command line, through the same operation as the browser."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents import operations
from agents.management.command_arguments import add_switch, refusals, switch_of


class Command(BaseCommand):
    help = "Stop every write of a workspace, a pattern or a tool. Exit code: 0 pressed, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_switch(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            switch = operations.kill(**switch_of(options))
        self.stdout.write(f"{switch} is stopped: no write of it starts any more.")
