"""SQLite for many threads: see base.py."""
