"""The app of the desk of recorded cases."""

from django.apps import AppConfig


class ReferenceConfig(AppConfig):
    name = "agents.desks.reference"
    label = "reference"
