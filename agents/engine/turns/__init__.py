"""Advance a run, turn by turn: ask models, execute requests, take in answers."""
