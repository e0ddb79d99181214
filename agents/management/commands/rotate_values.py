from agents.management.run_commands import RotateValues as Command  # noqa: F401
