from agents.management.people_commands import SetTeam as Command  # noqa: F401
