"""Advance a run, turn by turn: models asked, requests carried out, answers taken in."""
