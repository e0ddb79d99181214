from agents.management.workspace_commands import RotateValues as Command  # noqa: F401
