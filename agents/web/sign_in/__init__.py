"""Sign-in, the second factor, and what a person chooses for themselves."""
