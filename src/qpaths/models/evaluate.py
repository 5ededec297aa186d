"""Many observations at once: bounds on log p(x) for each."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .._types import Point, PRNGKey, ScalarLike
from ..algorithms import AIS, BDMC
from ..devices import Devices, as_devices, portable
from ..evaluation import layout_of
from ..memory import ran_out
from ..paths import AbstractPath
from .batches import in_batches, num_of, on_devices, rows_of, size_of
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
    devices: Devices = None,
) -> DecoderBounds:
    """Bidirectional Monte Carlo for each observation: `latents[i]` is an exact draw of the posterior of `x[i]`.

    `simulate` makes such pairs. A kernel that needs fitting is fitted to each observation by a pilot population of its
    own; `qpaths.tune(path_of, problems=...)` finds one for all of them. `batch_size` bounds how many observations are
    annealed at once; where the device runs out of memory it is halved, with a warning, and finished observations are
    kept. The numbers do not depend on it: observation i has the key `fold_in(key, i)`. `progress` shows the batches
    with the mean bounds so far on standard error.

    `devices`, a number or the devices themselves, such as `jax.devices()`, share the observations, and `batch_size` is
    then that of each. The numbers do not depend on how many there are. The processes of a JAX cluster all make the same
    call, and all get the bounds of all observations.
    """
    arrays = _bounds_arrays(path_of, x, latents, algorithm, key)
    return _run(Chains.both_ways, Chains.of(path_of, algorithm), arrays, batch_size, progress, as_devices(devices))


def evaluate_lower(
    path_of: PathOf,
    x: Point,
    algorithm: AIS | ReleasedProtocol,
    *,
    key: PRNGKey,
    batch_size: int | None = None,
    progress: bool = False,
    devices: Devices = None,
) -> DecoderBounds:
    """Annealed importance sampling for each observation, real ones included; options as for `evaluate_bounds`.

    The same key gives the forward chains of `evaluate_bounds` with the `BDMC` of the same settings.
    """
    arrays = _lower_arrays(path_of, x, algorithm, key)
    return _run(Chains.forward, Chains.of(path_of, algorithm), arrays, batch_size, progress, as_devices(devices))


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


@dataclasses.dataclass(frozen=True)
class _Work:
    """What a device does with its observations: the direction of the chains, and all that is no array of them."""

    run: Callable[..., DecoderBounds]
    leaves: tuple[Any, ...]
    structure: Any

    def __call__(self, shared: Any, numbers: Any, before: Any, rows: Any) -> DecoderBounds:
        chains = eqx.combine(shared, jax.tree.unflatten(self.structure, self.leaves))
        *observations, key_data = rows
        return self.run(chains, *observations, jax.random.wrap_key_data(key_data))


def _run(
    run: Callable[..., DecoderBounds],
    chains: Chains,
    arrays: Any,
    batch_size: int | None,
    progress: bool,
    devices: tuple[Any, ...] | None,
) -> DecoderBounds:
    if devices is None:
        return in_batches(lambda *arrays: run(chains, *arrays), arrays, batch_size, progress)
    shared, rest = eqx.partition(chains, eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)
    *observations, keys = arrays
    arrays = *observations, jax.random.key_data(keys)
    dtype = layout_of(chains.path_of(jax.tree.map(lambda leaf: leaf[0], observations[0]))).dtype
    work = _Work(run, tuple(leaves), structure)
    return on_devices(work, portable(shared, dtype), arrays, batch_size, progress, devices)


def _bounds_arrays(path_of: PathOf, x: Point, latents: Point, algorithm: Any, key: PRNGKey) -> Any:
    if not isinstance(algorithm, BDMC | ReleasedProtocol):
        raise TypeError(
            f"`algorithm` must be a BDMC or a ReleasedProtocol, got {type(algorithm).__name__}: upper bounds need "
            f"chains in both directions; `evaluate_lower` takes an AIS."
        )
    check_rows(_decoder_of(path_of), x)
    num = num_of(x)
    if num_of(latents) != num:
        raise ValueError(f"`latents` must be one for each of the {num} observations, got {num_of(latents)}.")
    return x, latents, _keys(key, num)


def _lower_arrays(path_of: PathOf, x: Point, algorithm: Any, key: PRNGKey) -> Any:
    if not isinstance(algorithm, AIS | ReleasedProtocol):
        raise TypeError(
            f"`algorithm` must be an AIS or a ReleasedProtocol, got {type(algorithm).__name__}: the forward half of a "
            f"BDMC is its `forward`; `evaluate_bounds` takes the whole."
        )
    check_rows(_decoder_of(path_of), x)
    return x, _keys(key, num_of(x))


def _decoder_of(path_of: Any) -> Any:
    """The decoder of a `DecoderProblem`, also of one that `tune` has given another q; None of any other function."""
    while hasattr(path_of, "path_of"):
        path_of = path_of.path_of
    return path_of.decoder if isinstance(path_of, DecoderProblem) else None


def _keys(key: PRNGKey, num: int) -> Array:
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num))


def _compile(run: Callable[..., Any], arrays: Any, batch_size: int | None) -> None:
    num = num_of(arrays)
    rows = rows_of(num, 0, size_of(num, batch_size))
    try:
        jax.block_until_ready(run(*jax.tree.map(lambda leaf: leaf[rows], arrays)))
    except jax.errors.JaxRuntimeError as error:
        if not ran_out(error):  # for which `in_batches` knows an answer
            raise
