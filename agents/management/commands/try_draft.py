"""Judge one trial of a draft, with low priority. A worker starts it."""

import logging
import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents.management.exit_codes import BadUsage
from agents.models import DraftTrial
from agents.publishing.trials import judge_trial

_NICE = 10


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # which import every page
    help = "Judge a trial that an admin asked for on a draft's page. Workers start it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("trial", type=int)

    def handle(self, *args: Any, trial: int, **options: Any) -> None:
        os.nice(_NICE)
        logging.getLogger("agents.policies").disabled = True  # a rule that raises is counted
        asked = DraftTrial.objects.filter(pk=trial).first()
        if asked is None:
            raise BadUsage(f"There is no trial {trial}.")
        judge_trial(asked)
