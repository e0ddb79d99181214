"""The engine: names each request of a pattern, writes it down, does it, writes what came back."""
