"""The record: seal it, verify it, take copies, archive and erase; the pages of the log."""
