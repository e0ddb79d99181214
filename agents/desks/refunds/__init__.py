"""The demo's business, in the place of a company's billing system.

Engine and tools reach it only through the functions of its modules, as they would reach Stripe: by
book, customer number and idempotency key.
"""
