from agents.management.request_commands import Request as Command  # noqa: F401
