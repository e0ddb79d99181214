"""The first page: what waits, how decisions go, and whether all is well."""
