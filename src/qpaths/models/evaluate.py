"""Many observations at once: bounds on log p(x) for each."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

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


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Annealing of many observations at once, for bounds on log p(x) of each.

    Args:
        path_of: Makes the path of one observation, such as a `DecoderProblem`.
        algorithm: An `AIS` or a `BDMC` with a fixed schedule, or a `ReleasedProtocol`.

    A kernel that needs fitting is fitted to each observation by a separate pilot population. That costs more than the
    chains: `qpaths.tune(path_of, problems=...)` finds one kernel for all of them. One program serves all values of q
    and all schedules. Other numbers of observations, chains or leapfrog steps need another one, and so do lower bounds
    alone. See [Many observations](models.md#many-observations).

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> evaluation = Evaluation(DecoderProblem(model.decoder), qp.BDMC(2, qp.LinearSchedule(5), kernel))
        >>> evaluation.compile(images, latents)
        >>> bounds = evaluation.run(images, latents, key=jax.random.key(2))
        >>> bounds.lower.shape, bounds.upper.shape
        ((4,), (4,))
    """

    path_of: PathOf
    algorithm: AIS | BDMC | ReleasedProtocol

    def run(
        self,
        x: Point,
        latents: Point | None = None,
        *,
        key: PRNGKey,
        batch_size: int | None = None,
        progress: bool = False,
        devices: Devices = None,
    ) -> DecoderBounds:
        """Return the bounds.

        Args:
            x: Observations, with a leading axis.
            latents: `latents[i]` is an exact draw from the posterior of `x[i]`, as `simulate` makes them. Nothing
                checks it. Without them there are lower bounds alone.
            key: Observation i has the key `fold_in(key, i)`. The forward chains are the same with and without
                `latents`, up to rounding errors.
            batch_size: The most observations that are annealed at once on a device. Where memory runs out it is halved,
                with a warning, and finished observations are kept. The numbers do not depend on it.
            progress: Whether to show the batches, with the mean bounds so far, on standard error.
            devices: Devices that share the observations: their number, or the devices themselves, such as
                `jax.devices()`. The numbers do not depend on it. The processes of a JAX cluster all make the same call,
                and all get all bounds.
        """
        run, arrays = self._checked(x, latents, key)
        chains, shared_by = Chains.of(self.path_of, self.algorithm), as_devices(devices)
        if shared_by is None:
            return in_batches(lambda *arrays: run(chains, *arrays), arrays, batch_size, progress)
        shared, rest = eqx.partition(chains, eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        *observations, keys = arrays
        arrays = *observations, jax.random.key_data(keys)
        dtype = layout_of(chains.path_of(jax.tree.map(lambda leaf: leaf[0], x))).dtype
        work = _Work(run, tuple(leaves), structure)
        return on_devices(work, portable(shared, dtype), arrays, batch_size, progress, shared_by)

    def compile(self, x: Point, latents: Point | None = None, *, batch_size: int | None = None) -> None:
        """Compile the program that `run` will need for arrays of these shapes, so that its run can be timed."""
        run, arrays = self._checked(x, latents, jax.random.key(0))
        chains = Chains.of(self.path_of, self.algorithm)._replace(num_steps=0)
        first = piece_of(arrays, 0, size_of(num_of(arrays), batch_size))
        try:
            jax.block_until_ready(run(chains, *first))
        except jax.errors.JaxRuntimeError as error:
            if not ran_out(error):  # for which `in_batches` knows an answer
                raise

    def _checked(self, x: Point, latents: Point | None, key: PRNGKey) -> tuple[Callable[..., DecoderBounds], Any]:
        """Return the method of `Chains` that runs, and its arrays; raise if they do not fit together."""
        name = type(self.algorithm).__name__
        if latents is None and not isinstance(self.algorithm, AIS | ReleasedProtocol):
            raise TypeError(
                f"`algorithm` must be an AIS or a ReleasedProtocol, got {name}: the forward half of a BDMC is its "
                f"`forward`; the whole needs `latents`."
            )
        if latents is not None and not isinstance(self.algorithm, BDMC | ReleasedProtocol):
            raise TypeError(
                f"`algorithm` must be a BDMC or a ReleasedProtocol, got {name}: upper bounds need chains in both "
                f"directions; leave `latents` out with an AIS."
            )
        check_rows(_decoder_of(self.path_of), x)
        num = num_of(x)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num))
        if latents is None:
            return Chains.forward, (x, keys)
        if num_of(latents) != num:
            raise ValueError(f"`latents` must be one for each of the {num} observations, got {num_of(latents)}.")
        return Chains.both_ways, (x, latents, keys)


def evaluate_bounds(
    path_of: PathOf, x: Point, latents: Point, algorithm: BDMC | ReleasedProtocol, *, key: PRNGKey, **settings: Any
) -> DecoderBounds:
    """Bidirectional Monte Carlo for each observation (Grosse, Ghahramani and Adams, 2015).

    Args:
        path_of: Makes the path of one observation.
        x: Observations, with a leading axis.
        latents: An exact draw from the posterior of each.
        algorithm: A `BDMC` with a fixed schedule, or a `ReleasedProtocol`.
        key: The random numbers.
        **settings: `batch_size`, `progress` and `devices`, as for `Evaluation.run`.

    Returns:
        `DecoderBounds`. See [Many observations](models.md#many-observations).

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> bdmc = qp.BDMC(2, qp.LinearSchedule(5), kernel)
        >>> bounds = evaluate_bounds(DecoderProblem(model.decoder), images, latents, bdmc, key=jax.random.key(2))
        >>> bounds.gap.shape
        (4,)
    """
    return Evaluation(path_of, algorithm).run(x, latents, key=key, **settings)


def evaluate_lower(
    path_of: PathOf, x: Point, algorithm: AIS | ReleasedProtocol, *, key: PRNGKey, **settings: Any
) -> DecoderBounds:
    """Annealed importance sampling for each observation (Neal, 2001), real ones included.

    Args:
        path_of: Makes the path of one observation.
        x: Observations, with a leading axis.
        algorithm: An `AIS` with a fixed schedule, or a `ReleasedProtocol`.
        key: The random numbers.
        **settings: `batch_size`, `progress` and `devices`, as for `Evaluation.run`.

    Returns:
        `DecoderBounds` without reverse chains. There is no upper bound, so a low value may be the model's fault or the
        sampler's: compare the gap on simulated data. See [Many observations](models.md#many-observations).

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> latents, images = qp.models.simulate(model.decoder, 4, key=jax.random.key(1))

        >>> kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
        >>> ais = qp.AIS(2, qp.LinearSchedule(5), kernel)
        >>> evaluate_lower(DecoderProblem(model.decoder), images, ais, key=jax.random.key(2)).lower.shape
        (4,)
    """
    return Evaluation(path_of, algorithm).run(x, key=key, **settings)


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


def _decoder_of(path_of: Any) -> Any:
    """The decoder of a `DecoderProblem`, also of one that `tune` has given another q; None of any other function."""
    while hasattr(path_of, "path_of"):
        path_of = path_of.path_of
    return path_of.decoder if isinstance(path_of, DecoderProblem) else None
