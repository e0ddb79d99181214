"""The engine: names each request of a pattern, records it, executes it, records the reply."""
