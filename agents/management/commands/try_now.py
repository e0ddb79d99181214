from agents.management.people_commands import TryNow as Command  # noqa: F401
