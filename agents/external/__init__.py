"""Agents that run elsewhere: their keys, sessions and calls, over HTTP and MCP, and their pages."""
