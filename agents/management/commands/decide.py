from agents.management.request_commands import Decide as Command  # noqa: F401
