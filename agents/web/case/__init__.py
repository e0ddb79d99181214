"""The case file: one run from its goal to its seal, in sentences, for printing."""
