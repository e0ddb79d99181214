from agents.management.people_commands import RotateValues as Command  # noqa: F401
