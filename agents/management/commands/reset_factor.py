from agents.management.people_commands import ResetFactor as Command  # noqa: F401
