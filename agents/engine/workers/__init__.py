"""Workers: the next run, and the drive of it."""
