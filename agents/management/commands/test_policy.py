from agents.management.policy_commands import TestPolicy as Command  # noqa: F401
