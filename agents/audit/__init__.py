"""The record in its database, sealed, copied and verified. What it consists of: `agents.record`."""
