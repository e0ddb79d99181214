"""What only replays recorded cases: no web process and no worker imports it."""
