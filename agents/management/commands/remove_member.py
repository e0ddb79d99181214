from agents.management.people_commands import RemoveMember as Command  # noqa: F401
