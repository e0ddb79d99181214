from agents.management.run_commands import TryNow as Command  # noqa: F401
