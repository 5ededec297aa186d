"""A lock around files that are being replaced, so that a process that is told to end can wait for them."""

import threading

WRITING = threading.RLock()
