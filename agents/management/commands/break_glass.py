from agents.management.workspace_commands import BreakGlass as Command  # noqa: F401
