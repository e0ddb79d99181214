"""Runs as people start, stop and read them."""
