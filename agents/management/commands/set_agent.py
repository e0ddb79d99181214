from agents.management.workspace_commands import SetAgent as Command  # noqa: F401
