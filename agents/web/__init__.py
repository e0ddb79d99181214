"""The pages: get and check, parse, one call, render."""
