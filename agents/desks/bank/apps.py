"""The app for bank transfers."""

from django.apps import AppConfig


class BankConfig(AppConfig):
    name = "agents.desks.bank"
    label = "bank"
    default_auto_field = "django.db.models.BigAutoField"
