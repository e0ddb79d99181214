"""The desk of the recorded cases: only replays run on it."""
