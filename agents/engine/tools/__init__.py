"""Call tools: admitted, carried out once, settled, and told of."""
