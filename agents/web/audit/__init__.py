"""The audit log: browse it, have it checked, take a copy."""
