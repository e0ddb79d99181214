from agents.management.people_commands import Kill as Command  # noqa: F401
