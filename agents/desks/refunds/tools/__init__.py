"""The tools of the desk, on its books."""
