from agents.management.people_commands import SetRole as Command  # noqa: F401
