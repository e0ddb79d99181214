"""Publish policies."""
