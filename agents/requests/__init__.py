"""Requests to people: the queue, a request's card, the decision, and who shares the work."""
