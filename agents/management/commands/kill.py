"""Press a kill switch from the command line, through the same operation as the browser."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents import operations
from agents.management.asked import add_switch, refusals, scope_of, user_named, workspace_named


class Command(BaseCommand):
    help = "Stop every write of a workspace, a pattern or a tool. Exit code: 0 pressed, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_switch(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        scope, target = scope_of(options["pattern"], options["tool"])
        with refusals():
            switch = operations.kill(
                workspace=workspace_named(options["workspace"]),
                by=user_named(options["actor"]),
                reason=options["reason"],
                at=timezone.now(),
                scope=scope,
                target=target,
            )
        self.stdout.write(f"{switch} is stopped: no write of it starts any more.")
