"""The adapter between a declared desk and the engine: facts, rules, books, names and origins."""
