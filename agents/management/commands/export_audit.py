from agents.management.record_commands import ExportAudit as Command  # noqa: F401
