from agents.management.workspace_commands import ResetFactor as Command  # noqa: F401
