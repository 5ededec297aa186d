"""Other packages on the same problems."""
