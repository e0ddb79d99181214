"""Drive the demo's cases; started by the demo, not by people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils import timezone

from agents.history.writing import record
from agents.management.demo import ensure_sign_ins
from agents.people.workspaces import ensure_demo_workspace


class Command(BaseCommand):
    help = "Drive the demo's cases in an empty database that is thrown away; the demo starts it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path)

    def handle(self, *, folder: Path, **options: Any) -> None:
        if connection.introspection.table_names():
            raise CommandError("Cases are recorded in an empty database, and this one is not.")
        # Tables straight from the models: migrations are for lasting databases.
        settings.MIGRATION_MODULES = dict.fromkeys(app.label for app in apps.get_app_configs())
        call_command("migrate", run_syncdb=True, interactive=False, verbosity=0)
        at = timezone.now()
        workspace = ensure_demo_workspace(at=at)
        ensure_sign_ins(workspace=workspace, path=folder / "sign-ins.json", at=at)
        record(folder, workspace)
