"""Archive, erase, verify, and who read the record."""
