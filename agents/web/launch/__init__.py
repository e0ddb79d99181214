"""Launch a run from the gallery or with one's own goal."""
