"""The desks that ship. Each is an app of its own, as a company's desk is."""
