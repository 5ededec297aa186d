"""What happens where memory runs out: the piece in work is lost, and is made again in halves."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import jax

Found = TypeVar("Found")


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory, on a device or on the host."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" in str(error)
    return isinstance(error, MemoryError)


def halving(run: Callable[[int], Found], size: int, what: str) -> tuple[Found, int]:
    """`run(size)`, and where memory runs out half of the size, again and again.

    Args:
        run: Works on pieces of at most a given size. It is called again, so it must leave nothing behind.
        size: The size to begin with.
        what: What is counted, for the warning.

    Returns:
        What `run` returned, and the size with which it did.
    """
    while True:
        try:
            return jax.block_until_ready(run(size)), size
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            if not ran_out(error):
                raise
            if size == 1:
                error.add_note(
                    f"qpaths: there is no memory even for 1 of the {what} at a time. End other programs that use the "
                    f"memory, take fewer {what} in all, or a smaller model. On a GPU, JAX takes most of the memory of "
                    f"the device at the start: see XLA_PYTHON_CLIENT_MEM_FRACTION in JAX's documentation."
                )
                raise
        # Outside of the `except`, since the error holds on to the memory of the failed call.
        size = (size + 1) // 2
        warnings.warn(f"there is no memory for that many {what} at once: {size} from now on", stacklevel=3)


class Pieces:
    """Work in pieces whose size is remembered: what did not fit once is not tried again."""

    def __init__(self, size: int, what: str):
        self.size = size
        self.what = what

    def run(self, work: Callable[[int], Found]) -> Found:
        """`work(size)`, as `halving` does it."""
        found, self.size = halving(work, self.size, self.what)
        return found
