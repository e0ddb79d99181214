from agents.management.people_commands import SettleCall as Command  # noqa: F401
