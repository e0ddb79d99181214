"""Notify people and other systems of events: addressed once, sent until delivered."""
