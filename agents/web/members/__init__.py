"""The people of a workspace: who may do what, and up to which amount."""
