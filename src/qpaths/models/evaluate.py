"""Many observations at once: bounds on log p(x) for each."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .._types import Point, PRNGKey
from ..algorithms import AIS, BDMC
from ..paths import AbstractPath
from ..rows import Devices, as_devices, layout_of, num_of, piece_of, portable, ran_out
from .batches import in_batches, on_devices, size_of
from .bounds import DecoderBounds
from .chains import Chains
from .networks import check_rows
from .posterior import DecoderProblem
from .released import ReleasedProtocol

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
    """Bidirectional Monte Carlo for each observation (Grosse, Ghahramani and Adams, 2015).

    A kernel that needs fitting is fitted to each observation by a separate pilot population. That costs more than the
    chains: `qpaths.tune(path_of, problems=...)` finds one kernel for all of them.

    Args:
        path_of: Makes the path of one observation, such as a `DecoderProblem`.
        x: Observations, with a leading axis.
        latents: `latents[i]` is an exact draw from the posterior of `x[i]`, as `simulate` makes them. Nothing checks
            it.
        algorithm: A `BDMC` with a fixed schedule, or a `ReleasedProtocol`.
        key: Observation i has the key `fold_in(key, i)`.
        batch_size: The most observations that are annealed at once on a device. Where memory runs out it is halved,
            with a warning, and finished observations are kept. The numbers do not depend on it.
        progress: Whether to show the batches, with the mean bounds so far, on standard error.
        devices: Devices that share the observations: their number, or the devices themselves, such as `jax.devices()`.
            The numbers do not depend on it. The processes of a JAX cluster all make the same call, and all get all
            bounds.

    Returns:
        `DecoderBounds`. See [Many observations](models.md#many-observations).

    Examples:
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)

        >>> import qpaths as qp
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> bdmc = qp.BDMC(2, qp.LinearSchedule(5), kernel)
        >>> bounds = evaluate_bounds(DecoderProblem(model.decoder), images, latents, bdmc, key=jax.random.key(2))
        >>> bounds.lower.shape, bounds.upper.shape
        ((4,), (4,))
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
    """Annealed importance sampling for each observation (Neal, 2001), real ones included.

    The same key gives the forward chains of `evaluate_bounds` with the `BDMC` of the same settings, up to rounding
    errors. There is no upper bound, so a low value may be the model's fault or the sampler's: compare the gap on
    simulated data.

    Args:
        path_of: Makes the path of one observation, such as a `DecoderProblem`.
        x: Observations, with a leading axis.
        algorithm: An `AIS` with a fixed schedule, or a `ReleasedProtocol`.
        key: Observation i has the key `fold_in(key, i)`.
        batch_size: The most observations that are annealed at once on a device. Where memory runs out it is halved,
            with a warning, and finished observations are kept. The numbers do not depend on it.
        progress: Whether to show the batches, with the mean bounds so far, on standard error.
        devices: Devices that share the observations: their number, or the devices themselves, such as `jax.devices()`.
            The numbers do not depend on it. The processes of a JAX cluster all make the same call, and all get all
            bounds.

    Returns:
        `DecoderBounds` without reverse chains.

    Examples:
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)

        >>> import qpaths as qp
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> ais = qp.AIS(2, qp.LinearSchedule(5), kernel)
        >>> evaluate_lower(DecoderProblem(model.decoder), images, ais, key=jax.random.key(2)).lower.shape
        (4,)
    """
    arrays = _lower_arrays(path_of, x, algorithm, key)
    return _run(Chains.forward, Chains.of(path_of, algorithm), arrays, batch_size, progress, as_devices(devices))


def compile_bounds(
    path_of: PathOf, x: Point, latents: Point, algorithm: BDMC | ReleasedProtocol, *, batch_size: int | None = None
) -> None:
    """Compile the program that `evaluate_bounds` will run for arrays of these shapes, so that its run can be timed.

    Other values of q and other schedules share the program. `evaluate_lower` has another one.

    Args:
        path_of: Makes the path of one observation, such as a `DecoderProblem`.
        x: Observations, with a leading axis.
        latents: As for `evaluate_bounds`. Only shapes matter here.
        algorithm: The algorithm of the run.
        batch_size: That of the run.

    Other numbers of observations, chains or leapfrog steps need another program. See [Many
    observations](models.md#many-observations).

    Examples:
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)

        >>> import qpaths as qp
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> compile_bounds(DecoderProblem(model.decoder), images, latents, qp.BDMC(2, qp.LinearSchedule(5), kernel))
    """
    arrays = _bounds_arrays(path_of, x, latents, algorithm, jax.random.key(0))
    _compile(Chains.of(path_of, algorithm)._replace(num_steps=0).both_ways, arrays, batch_size)


def compile_lower(
    path_of: PathOf, x: Point, algorithm: AIS | ReleasedProtocol, *, batch_size: int | None = None
) -> None:
    """Compile the program that `evaluate_lower` will run for arrays of these shapes, so that its run can be timed.

    Args:
        path_of: Makes the path of one observation, such as a `DecoderProblem`.
        x: Observations, with a leading axis.
        algorithm: The algorithm of the run.
        batch_size: That of the run.

    Other numbers of observations, chains or leapfrog steps need another program. See [Many
    observations](models.md#many-observations).

    Examples:
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)

        >>> import qpaths as qp
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> compile_lower(DecoderProblem(model.decoder), images, qp.AIS(2, qp.LinearSchedule(5), kernel))
    """
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
    first = piece_of(arrays, 0, size_of(num_of(arrays), batch_size))
    try:
        jax.block_until_ready(run(*first))
    except jax.errors.JaxRuntimeError as error:
        if not ran_out(error):  # for which `in_batches` knows an answer
            raise
