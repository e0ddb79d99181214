from agents.management.record_commands import EraseSubject as Command  # noqa: F401
