from agents.management.people_commands import AddWorkspace as Command  # noqa: F401
