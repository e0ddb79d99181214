"""What the audit record is made of: chains of events, seals, texts that can be erased.

It only computes and knows no Django; `agents.audit` keeps and proves the record in the database.
"""
