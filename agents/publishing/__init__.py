"""Policies: publish a version, and show in words what each one allows."""
