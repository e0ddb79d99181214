from agents.management.record_commands import Archive as Command  # noqa: F401
