from agents.management.people_commands import SetAgent as Command  # noqa: F401
