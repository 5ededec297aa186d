"""Experiments: one file per table or figure, and the data they need."""
