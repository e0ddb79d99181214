"""People: who is in a workspace, what each may do there, and how they prove who they are."""
