"""The app for supervision."""

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate


class AgentsConfig(AppConfig):
    name = "agents"

    def ready(self) -> None:
        from agents.audit import protection, sealing
        from agents.db import driver
        from agents.engine import upkeep
        from agents.engine.desk.registry import discover_desks
        from agents.management import deploy_checks
        from agents.notifications.channels import enter_channels
        from agents.people import members
        from agents.signon import pages as identities

        discover_desks()
        enter_channels()
        upkeep.ROOMS["seal the record"] = sealing.seal_in_sweep
        upkeep.ROOMS["expire invitations"] = members.expire_in_sweep
        upkeep.ROOMS["forget answers of sign-ons"] = identities.forget_in_sweep
        connection_created.connect(driver.on_new_connection)
        pre_migrate.connect(protection.before_migrate, sender=self)
        post_migrate.connect(protection.after_migrate, sender=self)
        register(protection.check_record, Tags.database)
        register(deploy_checks.check_desks, Tags.database)
        register(deploy_checks.check_given, deploy=True)
