from agents.management.policy_commands import PublishPolicy as Command  # noqa: F401
