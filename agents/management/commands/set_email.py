from agents.management.people_commands import SetEmail as Command  # noqa: F401
