"""The audit log: browse it, verify it, take a copy."""
