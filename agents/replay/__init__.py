"""Replays of recorded cases; no web process and no worker imports this."""
