"""Ctrl-C and SIGTERM end the command at once, with a line that says what is stored, and exit code 130 or 143.

Python turns Ctrl-C into an exception, wherever the program is at the time. Raised inside the compiler, or before the
compiler's threads have ended, it ends the process by a segmentation fault. So no exception is raised here. A thread of
its own hears of the signal, also while the main thread compiles. It waits for a file that is being written, and ends
the process. Files are replaced as a whole, and rows are stored in transactions, so nothing else needs to be put in
order.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable

from ..io import WRITING

_PATIENCE = 10.0
"""Seconds that a file may take to be written."""
_SHOW_CURSOR = "\x1b[?25h"

_status: list[Callable[[], str]] = []


def tell(status: Callable[[], str]) -> None:
    """Have `status()` said after an interrupt: what is stored, and where. It is called from another thread."""
    _status[:] = [status]


GOES_ON = "the same command goes on from there"


def message() -> str:
    """Return what is said after an interrupt."""
    return f"interrupted; {_status[0]() if _status else 'nothing was begun'}."


def end_on_signals() -> None:
    """Make the process end on SIGINT and SIGTERM. Only the main thread can ask for it."""
    if threading.current_thread() is not threading.main_thread():
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Python writes the number of a signal that has a handler, and a handler that does nothing is one.
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(heard,), daemon=True).start()


def ignore_signals() -> None:
    """Let a command that has ended clean up: a signal that comes now would only spoil its exit code."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _wait(heard: int) -> None:
    number = 0
    while number not in (signal.SIGINT, signal.SIGTERM):
        number = os.read(heard, 1)[0]
    WRITING.acquire(timeout=_PATIENCE)
    try:
        cursor = _SHOW_CURSOR if sys.stderr.isatty() else ""
        os.write(2, f"{cursor}\nqpaths: {message()}\n".encode())
    finally:
        os._exit(128 + number)
