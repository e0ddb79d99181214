"""How requests are decided: by rule, by reviewer and by hour, for whoever leads and for oneself."""
