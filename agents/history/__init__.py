"""The history of a new demo: cases driven once, and copied as of other people and days."""
