"""The policy page: the version for new runs, and what each version changed."""
