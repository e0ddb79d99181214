"""The app for the refund desk."""

from importlib import import_module

from django.apps import AppConfig

from agents.core.registry import load


class DeskConfig(AppConfig):
    name = "agents.desks.refunds"
    label = "desk"  # as its tables and migrations are called

    def ready(self) -> None:
        # What these declare is what counts.
        from agents.desks.refunds import background, rules, sources, specialists, words  # noqa: F401
        from agents.desks.refunds.declared import desk
        from agents.desks.refunds.system import RefundSystem
        from agents.engine.desk.registry import enter_desk

        load(import_module(f"{self.name}.demo"))
        enter_desk(desk, RefundSystem(desk))
