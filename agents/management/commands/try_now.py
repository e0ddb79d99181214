from agents.management.workspace_commands import TryNow as Command  # noqa: F401
