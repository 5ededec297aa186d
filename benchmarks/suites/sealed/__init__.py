"""The sealed held-out suite."""
