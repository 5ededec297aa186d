"""The public suite: targets on which samplers of normalizing constants are compared."""
