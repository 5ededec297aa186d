"""How often standard errors are right."""
