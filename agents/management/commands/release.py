from agents.management.people_commands import Release as Command  # noqa: F401
