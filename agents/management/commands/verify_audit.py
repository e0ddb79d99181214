from agents.management.record_commands import VerifyAudit as Command  # noqa: F401
