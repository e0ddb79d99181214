"""What a model gets done at the desks that ship: `make quality-model`."""
