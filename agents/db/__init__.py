"""The fast layer: statements compiled once and sent to the driver, several in a round trip.

For queries that a run makes many times (engine, record, ledger). Pages, commands and people's
operations use Django's ORM; docs/architecture.md says when to use which.
"""
