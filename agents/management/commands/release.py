from agents.management.workspace_commands import Release as Command  # noqa: F401
