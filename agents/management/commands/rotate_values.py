"""Encrypt the values behind names with the newest key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from agents import operations
from agents.core.units import with_unit
from agents.management.command_arguments import refusals


class Command(BaseCommand):
    help = (
        "Encrypt stored values with OPSCONSOLE_VALUE_KEY, so that old keys can be taken away. "
        "Exit code: 0 done, 3 a key is missing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals():
            count = operations.rotate_values()
        self.stdout.write(f"{with_unit(count, 'values')} encrypted with the newest key.")
