from agents.management.workspace_commands import RemoveMember as Command  # noqa: F401
