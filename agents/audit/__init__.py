"""Seal, copy, archive and verify the record in its database; its format is in `agents.record`."""
