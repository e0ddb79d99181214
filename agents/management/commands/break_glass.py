from agents.management.people_commands import BreakGlass as Command  # noqa: F401
