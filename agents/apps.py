"""The app for supervision."""

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        from agents import record

        post_migrate.connect(record.after_migrate, sender=self)
        register(record.check_record, Tags.database)
