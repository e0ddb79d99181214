"""The app for the refund desk."""

from importlib import import_module

from django.apps import AppConfig

from agents.core.former import FIRST_DESK
from agents.core.registry import enter, load


class DeskConfig(AppConfig):
    name = "agents.desks.refunds"
    label = "desk"  # as its tables and migrations are called

    def ready(self) -> None:
        from agents.desks.refunds import words  # noqa: F401 - it enters them
        from agents.desks.refunds.report import REPORT
        from agents.desks.refunds.system import RefundSystem
        from agents.policies import RULES
        from agents.policies.reports import report_rules
        from agents.systems import SYSTEMS

        for room in ("policies", "tools", "demo"):
            load(import_module(f"{self.name}.{room}"))
        for name, rule in report_rules(REPORT).items():
            enter(RULES, f"reports.{name}", rule)
        enter(SYSTEMS, FIRST_DESK, RefundSystem())
