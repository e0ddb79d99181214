"""The policy page: what new runs follow, and what each version changed."""
