"""The HTTP interface for agents that run elsewhere."""
