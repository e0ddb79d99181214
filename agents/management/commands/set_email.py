from agents.management.workspace_commands import SetEmail as Command  # noqa: F401
