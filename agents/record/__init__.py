"""The format of the audit record: chains of events, seals, erasable texts.

Pure computation without Django; `agents.audit` keeps and verifies the record in the database.
"""
