"""Many observations at once: bounds on log p(x) for each."""

import datetime
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._types import Point, PRNGKey, ScalarLike
from ..algorithms import AIS, BDMC
from ..paths import AbstractPath
from ..progress import Clock, Show, display
from .bounds import DecoderBounds
from .chains import Chains
from .networks import Decoder, check_rows
from .posterior import posterior_path
from .released import ReleasedProtocol


class DecoderProblem(eqx.Module):
    """What all observations share: the model, the path to its posteriors, and where it begins.

    `problem(x)` is the path to the posterior of one observation. `q` or `delta = 1 - q` as in `posterior_path`.
    `encoder(x)`, a normalized density that can be sampled, takes the place of the prior as the base where it is given.
    `guide`, a cheaper decoder that is nearly the same (`low_precision`), gives the gradients that kernels follow.
    """

    decoder: Decoder
    delta: ScalarLike | None
    encoder: Any
    prior: Any
    guide: Decoder | None

    def __init__(
        self,
        decoder: Decoder,
        *,
        q: ScalarLike | None = None,
        delta: ScalarLike | None = None,
        encoder: Any = None,
        prior: Any = None,
        guide: Decoder | None = None,
    ):
        if q is not None and delta is not None:
            raise ValueError(f"give `q` or `delta` (delta = 1 - q), not both, got q = {q} and delta = {delta}.")
        self.decoder = decoder
        delta = 1 - q if q is not None else delta
        # An array, so that another value does not compile again; Python numbers do not widen float32.
        self.delta = None if delta is None else jnp.asarray(delta)
        self.encoder = encoder
        self.prior = prior
        self.guide = guide

    def __call__(self, x: Point) -> AbstractPath[Any]:
        """The path to the posterior of one observation."""
        base = None if self.encoder is None else self.encoder(x)
        return posterior_path(self.decoder, x, delta=self.delta, prior=self.prior, base=base, guide=self.guide)


PathOf = Callable[[Point], AbstractPath[Any]]
"""Makes the path of one observation: a `DecoderProblem`, what `tune` returns for one, or any function."""


def evaluate_bounds(
    path_of: PathOf,
    x: Point,
    latents: Point,
    algorithm: BDMC | ReleasedProtocol,
    *,
    key: PRNGKey,
    batch_size: int | None = None,
    progress: bool = False,
) -> DecoderBounds:
    """Bidirectional Monte Carlo for each observation: `latents[i]` is an exact draw of the posterior of `x[i]`.

    `simulate` makes such pairs. A kernel that needs fitting is fitted to each observation by a pilot population of its
    own; `qpaths.tune(path_of, problems=...)` finds one for all of them. `batch_size` bounds how many observations are
    annealed at once; where the device runs out of memory it is halved, with a warning, and finished observations are
    kept. The numbers do not depend on it: observation i has the key `fold_in(key, i)`. `progress` shows the batches
    with the mean bounds so far on standard error.
    """
    arrays = _bounds_arrays(path_of, x, latents, algorithm, key)
    return in_batches(Chains.of(path_of, algorithm).both_ways, arrays, batch_size, progress)


def evaluate_lower(
    path_of: PathOf,
    x: Point,
    algorithm: AIS | ReleasedProtocol,
    *,
    key: PRNGKey,
    batch_size: int | None = None,
    progress: bool = False,
) -> DecoderBounds:
    """Annealed importance sampling for each observation, real ones included; options as for `evaluate_bounds`.

    The same key gives the forward chains of `evaluate_bounds` with the `BDMC` of the same settings.
    """
    arrays = _lower_arrays(path_of, x, algorithm, key)
    return in_batches(Chains.of(path_of, algorithm).forward, arrays, batch_size, progress)


def compile_bounds(
    path_of: PathOf, x: Point, latents: Point, algorithm: BDMC | ReleasedProtocol, *, batch_size: int | None = None
) -> None:
    """Compile the program that `evaluate_bounds` will run for arrays of these shapes, so that its run can be timed.

    Other values of q and other schedules share the program.
    """
    arrays = _bounds_arrays(path_of, x, latents, algorithm, jax.random.key(0))
    _compile(Chains.of(path_of, algorithm)._replace(num_steps=0).both_ways, arrays, batch_size)


def compile_lower(
    path_of: PathOf, x: Point, algorithm: AIS | ReleasedProtocol, *, batch_size: int | None = None
) -> None:
    """As `compile_bounds`, for `evaluate_lower`."""
    arrays = _lower_arrays(path_of, x, algorithm, jax.random.key(0))
    _compile(Chains.of(path_of, algorithm)._replace(num_steps=0).forward, arrays, batch_size)


def _bounds_arrays(path_of: PathOf, x: Point, latents: Point, algorithm: Any, key: PRNGKey) -> Any:
    if not isinstance(algorithm, BDMC | ReleasedProtocol):
        raise TypeError(
            f"`algorithm` must be a BDMC or a ReleasedProtocol, got {type(algorithm).__name__}: upper bounds need "
            f"chains in both directions; `evaluate_lower` takes an AIS."
        )
    check_rows(_decoder_of(path_of), x)
    num = _num_of(x)
    if _num_of(latents) != num:
        raise ValueError(f"`latents` must be one for each of the {num} observations, got {_num_of(latents)}.")
    return x, latents, _keys(key, num)


def _lower_arrays(path_of: PathOf, x: Point, algorithm: Any, key: PRNGKey) -> Any:
    if not isinstance(algorithm, AIS | ReleasedProtocol):
        raise TypeError(
            f"`algorithm` must be an AIS or a ReleasedProtocol, got {type(algorithm).__name__}: the forward half of a "
            f"BDMC is its `forward`; `evaluate_bounds` takes the whole."
        )
    check_rows(_decoder_of(path_of), x)
    return x, _keys(key, _num_of(x))


def _decoder_of(path_of: Any) -> Any:
    """The decoder of a `DecoderProblem`, also of one that `tune` has given another q; None of any other function."""
    while hasattr(path_of, "path_of"):
        path_of = path_of.path_of
    return path_of.decoder if isinstance(path_of, DecoderProblem) else None


def _num_of(tree: Point) -> int:
    return int(jax.tree.leaves(tree)[0].shape[0])


def _keys(key: PRNGKey, num: int) -> Array:
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num))


def _rows(num: int, start: int, size: int) -> np.ndarray:
    """A slice that is filled up with the last row, so that the last one has the shape that is compiled already."""
    return np.minimum(np.arange(start, start + size), num - 1)


def _size(num: int, batch_size: int | None) -> int:
    size = num if batch_size is None else min(batch_size, num)
    if size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}, for {num} observations.")
    return size


def _compile(run: Callable[..., Any], arrays: Any, batch_size: int | None) -> None:
    num = _num_of(arrays)
    rows = _rows(num, 0, _size(num, batch_size))
    try:
        jax.block_until_ready(run(*jax.tree.map(lambda leaf: leaf[rows], arrays)))
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):  # for which `in_batches` knows an answer
            raise


def in_batches(run: Callable[..., Any], arrays: Any, batch_size: int | None, progress: bool = False) -> Any:
    """`run(*arrays)` for slices of at most `batch_size` along the first axis, joined; smaller where memory runs out."""
    with display(progress) as show:
        return _joined(run, arrays, _size(_num_of(arrays), batch_size), show)


def _joined(run: Callable[..., Any], arrays: Any, size: int, show: Show) -> Any:
    num, clock = _num_of(arrays), Clock()
    done: list[Any] = []
    start = 0
    while start < num:
        rows = _rows(num, start, size)
        try:
            part = jax.block_until_ready(run(*jax.tree.map(lambda leaf: leaf[rows], arrays)))  # noqa: B023
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or size == 1:
                raise
            size = (size + 1) // 2
            warnings.warn(
                f"the device has no memory for that many observations at once: {size} from now on", stacklevel=3
            )
            continue
        done.append(jax.tree.map(lambda leaf: leaf[: num - start], part))  # noqa: B023
        start += size
        left = clock.seconds_left(max(num - start, 0) / size)
        show(_line(done, min(start, num), num, left), min(start, num) / num)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *done)


def _line(done: list[Any], num_done: int, num: int, seconds_left: float | None) -> str:
    """How far a run is, in a few words."""
    line = f"{num_done} of {num} observations"
    if isinstance(done[0], DecoderBounds):
        parts = {"lower": jnp.concatenate([part.lower for part in done])}
        if done[0].reverse.shape[1]:
            parts["upper"] = jnp.concatenate([part.upper for part in done])
        line += "".join(f", {name} {float(jnp.mean(values)):.3f}" for name, values in parts.items())
    return line if seconds_left is None else f"{line}, {datetime.timedelta(seconds=round(seconds_left))} left"
