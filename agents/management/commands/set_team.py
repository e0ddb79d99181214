from agents.management.workspace_commands import SetTeam as Command  # noqa: F401
