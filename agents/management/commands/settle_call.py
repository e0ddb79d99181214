from agents.management.run_commands import SettleCall as Command  # noqa: F401
