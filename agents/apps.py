"""The app for supervision."""

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        from agents.audit import triggers
        from agents.db import driver

        connection_created.connect(driver.on_new_connection)
        pre_migrate.connect(triggers.before_migrate, sender=self)
        post_migrate.connect(triggers.after_migrate, sender=self)
        register(triggers.check_record, Tags.database)
