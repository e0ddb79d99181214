"""The business that demo agents act on. It stands where a company's billing system stands.

Engine and tools reach it only through the functions of its modules, as they would reach
Stripe: by book, customer number and idempotency key.
"""
