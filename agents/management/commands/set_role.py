from agents.management.workspace_commands import SetRole as Command  # noqa: F401
