"""The app for supervision."""

from django.apps import AppConfig, apps
from django.core.checks import Tags, register
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate

FIRST = "agents.desks.refunds"


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        from agents.audit import protection
        from agents.db import driver
        from agents.engine.desk.registry import discover_desks
        from agents.management import deploy_checks

        if not apps.is_installed(FIRST):
            raise ImproperlyConfigured(
                f"{FIRST} must stay in INSTALLED_APPS: the console's migrations build on its own. "
                "A workspace is without it by `publish_policy WORKSPACE --drop-desk refunds`."
            )
        discover_desks()
        connection_created.connect(driver.on_new_connection)
        pre_migrate.connect(protection.before_migrate, sender=self)
        post_migrate.connect(protection.after_migrate, sender=self)
        register(protection.check_record, Tags.database)
        register(deploy_checks.check_desks, Tags.database)
        register(deploy_checks.check_given, deploy=True)
