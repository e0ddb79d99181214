from agents.management.workspace_commands import AddMember as Command  # noqa: F401
