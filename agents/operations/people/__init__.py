"""People, teams, workspaces, agents, their roles and their sessions."""
