"""Workers: which run goes next, and who drives it."""
