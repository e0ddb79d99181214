"""The inbox, the card and the decided requests: what waits for a person, and their answer."""
