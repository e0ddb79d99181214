from agents.management.record_commands import SealAudit as Command  # noqa: F401
