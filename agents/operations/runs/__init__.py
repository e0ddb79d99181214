"""Launch runs, ask on, propose calls, stop and kill."""
