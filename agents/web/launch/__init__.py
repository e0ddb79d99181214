"""Launching a run: from the gallery, or with a goal of one's own."""
