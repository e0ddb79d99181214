from agents.management.workspace_commands import Kill as Command  # noqa: F401
