"""How requests are decided, by rule, reviewer and hour: for leads, and for oneself."""
