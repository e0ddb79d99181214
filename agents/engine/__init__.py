"""The engine: names each request of a pattern, records it, carries it out, records the reply."""
