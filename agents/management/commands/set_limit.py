from agents.management.workspace_commands import SetLimit as Command  # noqa: F401
