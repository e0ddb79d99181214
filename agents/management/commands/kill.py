from agents.management.run_commands import Kill as Command  # noqa: F401
