"""How one is told of what happened, whom else the console calls, and what became of it."""
