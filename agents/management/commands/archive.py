from agents.management.record_commands import ArchiveRuns as Command  # noqa: F401
