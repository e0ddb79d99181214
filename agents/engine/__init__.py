"""The engine: names each wish of a pattern, writes it down, does it, writes what came back."""
