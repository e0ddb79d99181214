from agents.management.workspace_commands import SettleCall as Command  # noqa: F401
