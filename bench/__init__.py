"""How fast the engine is beside others, on the machine it runs on: `make bench`."""
