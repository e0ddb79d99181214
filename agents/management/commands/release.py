from agents.management.run_commands import Release as Command  # noqa: F401
