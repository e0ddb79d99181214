"""Live updates: server-sent events in front of Django, from one hub in each web process.

What is sent is the newest state of a thing, rendered once for all who watch it, never a
difference: a viewer that was away, or that reads slowly, gets the newest state again and has lost
and doubled nothing. Why: docs/decisions/0005.
"""
