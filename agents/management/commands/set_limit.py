from agents.management.people_commands import SetLimit as Command  # noqa: F401
