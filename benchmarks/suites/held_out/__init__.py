"""The first former held-out suite."""
