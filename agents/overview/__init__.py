"""Overview: what is going on, how well it goes, and where to find it; it changes nothing."""
