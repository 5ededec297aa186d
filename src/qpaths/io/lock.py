"""A lock around files that are being replaced, so that a process that gets a signal to end can wait for them."""

import threading

WRITING = threading.RLock()
"""Held while a file is written."""
