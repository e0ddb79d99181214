"""Webhooks: addresses that a workspace calls."""
