"""Bank transfers: a desk that ships, written as a company writes its own."""
