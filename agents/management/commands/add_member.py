from agents.management.people_commands import AddMember as Command  # noqa: F401
