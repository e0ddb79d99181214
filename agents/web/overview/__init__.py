"""The overview: what waits, how decisions go, and whether all is well."""
