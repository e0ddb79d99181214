"""A process's resources: threads, its database, the doorbell, breakers, crash points of tests."""
