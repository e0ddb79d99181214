"""What people do with a request: claim, decide, grant, send back, snooze, settle."""
