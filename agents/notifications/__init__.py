"""Tell people and other systems what happened: shared out once, sent until it has arrived."""
