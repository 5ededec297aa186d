"""Models as bytes, for workers; and errors that name the part that cannot travel."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import jax

_DEEPEST = 12


def pack(value: Any) -> bytes:
    """A function with all that it needs, as bytes.

    Functions of modules that workers can import go by name, all others by content, with the data they close over.

    Raises:
        TypeError: If some part cannot travel; it names the part.
    """
    try:
        return _dumps(value)
    except Exception as error:
        raise TypeError(
            f"the model cannot be sent to the workers of `executor`: {_culprit(value)} cannot be pickled ({error}). "
            f"Make it inside the function, or give an executor of threads."
        ) from error


def unpack(content: bytes) -> Any:
    """The inverse of `pack`, in a worker."""
    import cloudpickle

    try:
        return cloudpickle.loads(content)
    except ImportError as error:
        raise RuntimeError(
            f"a worker cannot import what the model needs ({error}): install it where the workers run, or start them "
            f"in the same environment and folder."
        ) from error


def _dumps(value: Any) -> bytes:
    import cloudpickle

    return cloudpickle.dumps(value)


def _culprit(value: Any, name: str = "", depth: int = 0) -> str:
    """The innermost part that cannot be pickled, with the names that lead to it."""
    for label, part in _parts(value) if depth < _DEEPEST else ():
        if not _can_travel(part):
            return _culprit(part, label if not name else f"{label} in {name}", depth + 1)
    kind = f"a {type(value).__module__}.{type(value).__qualname__}"
    return f"{name}, {kind}," if name else kind


def _can_travel(part: Any) -> bool:
    try:
        _dumps(part)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value consists of, with names that its author knows."""
    if isinstance(value, functools.partial | jax.tree_util.Partial):
        yield f"`{getattr(value.func, '__name__', 'a function')}`", value.func
        yield from ((f"argument {i}", part) for i, part in enumerate(value.args))
        yield from ((f"`{name}`", part) for name, part in value.keywords.items())
    elif inspect.isfunction(value):
        found = inspect.getclosurevars(value)
        yield from ((f"`{name}`", part) for name, part in {**found.nonlocals, **found.globals}.items())
    elif inspect.ismethod(value):
        yield f"`{type(value.__self__).__name__}`", value.__self__
    elif isinstance(value, dict):
        yield from ((f"`{name}`", part) for name, part in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        yield from ((f"`{name}`", part) for name, part in value._asdict().items())
    elif isinstance(value, tuple | list):
        yield from ((f"element {i}", part) for i, part in enumerate(value))
    elif hasattr(value, "__dict__"):
        yield from ((f"`{name}`", part) for name, part in vars(value).items())
