"""A lock around files that are being replaced, so that a process that receives a signal can wait for them."""

import threading

WRITING = threading.RLock()
