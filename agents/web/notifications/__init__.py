"""Notifications: people's preferences, a workspace's webhooks, and the delivery log."""
