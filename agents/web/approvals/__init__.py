"""The inbox, the card and what was decided: what waits for a person, and their answer."""
