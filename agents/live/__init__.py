"""Live updates: server-sent events in front of Django, from one hub in each web process.

Each update is the newest state of a topic, rendered once for all viewers, never a difference: a
viewer that was away or reads slowly gets the newest state, with nothing lost or doubled.
"""
