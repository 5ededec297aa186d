"""The second former held-out suite."""
