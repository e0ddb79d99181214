"""What a process has: threads, its database, the doorbell, breakers, crash points of tests."""
