"""The app for the desk."""

from django.apps import AppConfig


class DeskConfig(AppConfig):
    name = "agents.desk"
    label = "desk"
