"""The fast layer: statements that go to the driver, compiled once, several in a round trip.

For what a drive asks many times a run (engine, record, ledger). Pages, commands and whatever a
person triggers read and write by Django's ORM. docs/fast-layer.md says when which.
"""
