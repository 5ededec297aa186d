"""Which world a run lives in: on the host, or inside a compiled program."""

from typing import Any

import jax

from ..core import HostStream, Stream, TracedStream, is_traced, stream_of
from .derived import DerivedDensity
from .evaluator import AbstractDensities, Evaluator, forward
from .host import HostDensities
from .layout import any_numpy, layout_of
from .traced import TracedDensities


def runs_on_host(*parts: Any) -> bool:
    """Whether a run of these parts is stepped on the host: outside any transformation, and without an accelerator."""
    return not is_traced(parts) and (on_cpu() or any_numpy(parts))


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def stream_for(key: Any, *parts: Any, pilots: bool = False) -> HostStream | TracedStream:
    """The random numbers of a run of these parts: a stream of the host, or of JAX where the run is compiled.

    Args:
        key: A key of JAX, or a stream, which is returned as it is.
        *parts: What will run: the path, the algorithm, and arrays. A traced array among them makes the run a compiled
            one.
        pilots: Many short runs of a few hundred particles. They step on the host even where there is an accelerator,
            which then evaluates the densities. Compiling their steps would take ten times as long as running them.

    Returns:
        The stream. `split` and `fold` make further ones; use each for one purpose only.

    The two kinds of streams give different numbers for the same key. See [How it runs](engine.md).

    Examples:
        >>> import jax
        >>> stream = stream_for(jax.random.key(0))
        >>> len(stream.split(2))
        2
    """
    if isinstance(key, HostStream | TracedStream):
        return key
    if not isinstance(key, jax.Array):
        raise TypeError(f"`key` must be a random key of JAX, got {key!r}: give `jax.random.key(0)`.")
    return stream_of(key, host=runs_on_host(*parts, key) or (pilots and not is_traced(parts, key)))


def evaluator_of(path: Any, stream: Stream, *, with_slopes: bool) -> Evaluator:
    """The evaluator for a run of a path in the world of a stream; a base may choose the coordinates of the run."""
    layout, is_host = layout_of(path), isinstance(stream, HostStream)
    if not is_host and any_numpy((path,)):
        raise TypeError(
            "a density with `backend='numpy'` cannot run under `jax.jit` or `jax.vmap`: call `run` outside of them."
        )
    densities: AbstractDensities = HostDensities(layout, with_slopes) if is_host else TracedDensities(layout)
    base = forward(path).base
    return Evaluator.of(path, base.in_coordinates(densities) if isinstance(base, DerivedDensity) else densities)
