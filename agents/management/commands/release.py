"""Release a kill switch from the command line, one stage at a time."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents import operations
from agents.management.command_arguments import add_switch, refusals, switch_of
from agents.models import SwitchStage

STAGES = {"new-runs": SwitchStage.TRIAL, "all-runs": SwitchStage.OFF}
SAID = {
    SwitchStage.TRIAL: "runs launched from now on may write; older ones may not yet.",
    SwitchStage.OFF: "released; runs that were stopped stay stopped.",
}


class Command(BaseCommand):
    help = "Let new runs act again, and after that all runs. Exit code: 0 released, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_switch(parser)
        parser.add_argument("--for", dest="stage", choices=STAGES, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        to = STAGES[options["stage"]]
        with refusals():
            switch = operations.release(**switch_of(options), to=to)
        self.stdout.write(f"{switch}: {SAID[to]}")
