"""The case file: one run from what was asked to its seal, in sentences, to be printed."""
