from agents.management.workspace_commands import AddWorkspace as Command  # noqa: F401
