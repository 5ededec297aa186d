"""Bounds on log p(x) for many observations at once: chains of all of them in one program, in batches, on devices."""

import dataclasses
import datetime
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Shaped

from ..algorithms import AIS, BDMC, at_bases, at_targets, run_many
from ..annealing import State
from ..core import AnyArray, Clock, Point, PRNGKey, PyTree, display, log_mean_exp
from ..io import Codec, read, to_jax, write
from ..kernels import AbstractKernel, shared
from ..paths import AbstractPath
from ..results import Status
from ..rows import (
    AtMost,
    Devices,
    OnDevices,
    ShardedRows,
    as_devices,
    gathered,
    in_pieces,
    layout_of,
    num_of,
    piece_of,
    portable,
    ran_out,
)
from ..schedules import padded
from .networks import DecoderProblem, check_rows
from .released import ReleasedProtocol


class DecoderBounds(eqx.Module):
    """Log weights of all chains for all observations, and the bounds that they give.

    The bounds hold in expectation (Grosse, Ghahramani and Adams, 2015). Those of single observations may cross by their
    noise. Without reverse chains (a width of zero) there is no upper bound.

    Attributes:
        forward: Log weights of the forward chains, one row for each observation.
        reverse: Those of the reverse chains, which estimate minus the log evidence.
        acceptance: Mean acceptance of each observation's forward chains.
        status: `qpaths.Status` of each observation's run.

    Examples:
        >>> import jax.numpy as jnp
        >>> forward, reverse = jnp.array([[-3.0, -1.0]]), jnp.array([[1.0, 2.0]])
        >>> bounds = DecoderBounds(forward, reverse, jnp.ones(1), jnp.zeros(1, int))
        >>> float(bounds.lower[0]), float(bounds.upper[0]), float(bounds.gap[0])
        (-2.0, -1.5, 0.5)
    """

    forward: Float[Array, "num chains"]
    reverse: Float[Array, "num reverse_chains"]
    acceptance: Float[Array, " num"]
    """Mean acceptance of each observation's forward chains."""
    status: Shaped[Array, " num"]
    """`qpaths.Status` of each observation's run."""

    @property
    def lower(self) -> Float[Array, " num"]:
        """Mean log weight: a lower bound of log p(x) in expectation, for each observation."""
        return jnp.mean(self.forward, axis=1)

    @property
    def upper(self) -> Float[Array, " num"]:
        """Minus the mean log weight of the reverse chains: an upper bound in expectation."""
        return -jnp.mean(self.reverse, axis=1)

    @property
    def gap(self) -> Float[Array, " num"]:
        return self.upper - self.lower

    @property
    def mean_lower(self) -> tuple[float, float]:
        """Mean lower bound over the observations, and its standard error: other observations and other chains."""
        return _mean(self.lower)

    @property
    def mean_upper(self) -> tuple[float, float]:
        """Mean upper bound over the observations, and its standard error; NaN where there are no reverse chains."""
        return _mean(self.upper)

    @property
    def mean_gap(self) -> tuple[float, float]:
        """Mean gap over the observations, and its standard error, smaller than theirs because they share noise."""
        return _mean(self.gap)

    def averaged(self) -> "DecoderBounds":
        """Return the same with the weights of an observation's chains averaged under the log.

        Still bounds, tighter by Jensen's inequality (Burda, Grosse and Salakhutdinov, 2016); the released code reports
        these.
        """
        forward, reverse = log_mean_exp(self.forward)[:, None], self.reverse
        reverse = log_mean_exp(reverse)[:, None] if reverse.shape[1] else reverse
        return DecoderBounds(forward, reverse, self.acceptance, self.status)

    def summary(self) -> str:
        """Return a few lines for a person: the mean bounds with standard errors, and what went wrong."""
        num, chains = self.forward.shape
        lines = [f"{num} observations with {chains} chains each, {float(jnp.mean(self.acceptance)):.0%} accepted"]
        parts = {"lower bound": self.mean_lower}
        if self.reverse.shape[1]:
            parts |= {"upper bound": self.mean_upper, "gap": self.mean_gap}
        lines += [
            f"  mean {name} {value:.4f} +- {error:.4f} nats (standard error)" for name, (value, error) in parts.items()
        ]
        status = np.asarray(self.status)
        for code in np.unique(status[status != Status.OK]):
            lines.append(f"  beware: {np.sum(status == code)} observations: {Status(int(code)).message}")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all log weights to a file that `load_bounds` reads, in the format of `Result.save`."""
        write(path, "decoder bounds", self, Codec((DecoderBounds,)))


def load_bounds(path: str | os.PathLike[str]) -> DecoderBounds:
    """Return the bounds that `DecoderBounds.save` wrote to a file."""
    return to_jax(read(path, ("decoder bounds",), Codec((DecoderBounds,))))


def _mean(values: Float[AnyArray, " num"]) -> tuple[float, float]:
    """Return the mean of one number for each observation, and its standard error."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / values.size**0.5) if values.size > 1 else float("nan")


_CELLS = 16
"""Batches on several devices are at most this share of all, so that the numbers do not depend on how many there are."""

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
        chains, shared_by = _Chains.of(self.path_of, self.algorithm), as_devices(devices)
        if shared_by is None:
            return _in_batches(lambda *arrays: run(chains, *arrays), arrays, batch_size, progress)
        shared, rest = eqx.partition(chains, eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        *observations, keys = arrays
        arrays = *observations, jax.random.key_data(keys)
        dtype = layout_of(chains.path_of(jax.tree.map(lambda leaf: leaf[0], x))).dtype
        work = _Work(run, tuple(leaves), structure)
        return _over_devices(work, portable(shared, dtype), arrays, batch_size, progress, shared_by)

    def compile(self, x: Point, latents: Point | None = None, *, batch_size: int | None = None) -> None:
        """Compile the program that `run` will need for arrays of these shapes, so that its run can be timed."""
        run, arrays = self._checked(x, latents, jax.random.key(0))
        chains = _Chains.of(self.path_of, self.algorithm)._replace(num_steps=0)
        first = piece_of(arrays, 0, _size_of(num_of(arrays), batch_size))
        try:
            jax.block_until_ready(run(chains, *first))
        except jax.errors.JaxRuntimeError as error:
            if not ran_out(error):  # for which `_in_batches` knows an answer
                raise

    def _checked(self, x: Point, latents: Point | None, key: PRNGKey) -> tuple[Callable[..., DecoderBounds], Any]:
        """Return the method of `_Chains` that runs, and its arrays; raise if they do not fit together."""
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
            return _Chains.forward, (x, keys)
        if num_of(latents) != num:
            raise ValueError(f"`latents` must be one for each of the {num} observations, got {num_of(latents)}.")
        return _Chains.both_ways, (x, latents, keys)


def evaluate_bounds(
    path_of: PathOf, x: Point, latents: Point, algorithm: BDMC | ReleasedProtocol, *, key: PRNGKey, **settings: Any
) -> DecoderBounds:
    """Run bidirectional Monte Carlo for each observation (Grosse, Ghahramani and Adams, 2015).

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
    """Run annealed importance sampling for each observation (Neal, 2001), real ones included.

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
    """Tell a device what to do with its observations: the direction of the chains, and all that is no array of them."""

    run: Callable[..., DecoderBounds]
    leaves: tuple[Any, ...]
    structure: Any

    def __call__(self, shared: PyTree, numbers: PyTree, before: PyTree, rows: PyTree) -> DecoderBounds:
        chains = eqx.combine(shared, jax.tree.unflatten(self.structure, self.leaves))
        *observations, key_data = rows
        return self.run(chains, *observations, jax.random.wrap_key_data(key_data))


def _decoder_of(path_of: Any) -> Any:
    """Return the decoder of a `DecoderProblem`, also of one with another q; None for other functions."""
    while hasattr(path_of, "path_of"):
        path_of = path_of.path_of
    return path_of.decoder if isinstance(path_of, DecoderProblem) else None


class _Chains(NamedTuple):
    """Chains with the settings of an algorithm, whose kernel is fitted to each observation where it needs a fit.

    `num_steps` is the length of the run; 0 compiles the program and makes no step.
    """

    path_of: PathOf
    algorithm: AIS
    num_steps: int

    @staticmethod
    def of(path_of: PathOf, algorithm: AIS | BDMC | ReleasedProtocol) -> "_Chains":
        """Return the chains of an algorithm in full length."""
        both = algorithm.both_ways if isinstance(algorithm, ReleasedProtocol) else algorithm
        forward = both.forward if isinstance(both, BDMC) else both
        return _Chains(path_of, forward, forward.betas.shape[0] - 1)

    def forward(self, x: Point, keys: Array) -> DecoderBounds:
        """Return lower bounds alone."""
        kernel, points, streams = self._start(x, keys)
        log_weights, acceptance, status = self._run(kernel, x, [(points, streams, self.algorithm.betas)])
        return DecoderBounds(log_weights[0], log_weights[0, :, :0], acceptance[0], status[0])

    def both_ways(self, x: Point, latents: Point, keys: Array) -> DecoderBounds:
        """Return bounds from both sides; `latents` are exact draws from the posteriors.

        The chains of both directions move together: a GPU does more with twice as many at once.
        """
        betas = self.algorithm.betas
        kernel, points, streams = self._start(x, keys)
        reverse = *at_targets(self.path_of, self.algorithm.num_chains, x, latents, keys), betas[::-1]
        log_weights, acceptance, status = self._run(kernel, x, [(points, streams, betas), reverse])
        return DecoderBounds(log_weights[0], log_weights[1], acceptance[0], status.max(axis=0))

    def _start(self, x: Point, keys: Array) -> tuple[AbstractKernel[Any], Point, Any]:
        """Return the kernel, fitted to each observation or shared by all, draws from the bases, and streams."""
        algorithm = self.algorithm
        to_fit = algorithm if algorithm.kernel.needs_fit else None
        points, streams, kernel = at_bases(self.path_of, algorithm.num_chains, x, keys, to_fit)
        return shared(algorithm.kernel) if to_fit is None else kernel, points, streams

    def _run(
        self, kernel: AbstractKernel[Any], x: Point, directions: list[tuple[Point, PyTree, AnyArray]]
    ) -> tuple[Array, ...]:
        """Run the chains of each direction, from its points and streams along its betas."""
        num, fitted = np.array([self.num_steps]), self.algorithm.kernel.needs_fit
        padded_ways = [(points, streams, padded(betas)) for points, streams, betas in directions]
        points, streams, betas = jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded_ways)
        log_weights, accepted, status = _run_chains(
            self.path_of, kernel, fitted, self.algorithm.chunk_size, betas, num, x, points, streams
        )
        return log_weights, accepted / (self.algorithm.betas.size - 1), status


def _acceptance(state: State, stats: dict[str, AnyArray]) -> AnyArray:
    return stats["acceptance"]


@eqx.filter_jit
def _run_chains(
    path_of: PathOf,
    kernel: AbstractKernel[Any],
    fitted: bool,
    chunk_size: int | None,
    betas: AnyArray,
    num_steps: AnyArray,
    x: Point,
    points: Point,
    streams: PyTree,
) -> tuple[Array, ...]:
    """Return log weights, sums of the acceptance rates over the steps, and the status.

    Betas, points and streams have a leading axis for the directions, points and streams then one for the observations.
    """

    def one_way(betas: AnyArray, points: Point, streams: PyTree) -> tuple[AnyArray, ...]:
        settings: Any = {"is_fitted": fitted, "chunk_size": chunk_size, "add": _acceptance, "keep": lambda state: ()}
        end, sums, _ = run_many(path_of, kernel, betas, num_steps, x, points, streams, **settings)
        return end.log_weights, sums[:, 0], end.fault.status

    return jax.vmap(one_way)(betas, points, streams)


def _size_of(num: int, batch_size: int | None) -> int:
    size = num if batch_size is None else min(batch_size, num)
    if size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}, for {num} observations.")
    return size


def _in_batches(run: Callable[..., Any], arrays: PyTree, batch_size: int | None, progress: bool = False) -> PyTree:
    """Run `run(*arrays)` for slices of at most `batch_size` rows, joined; smaller ones if memory runs out."""
    return _shown(run, arrays, AtMost(_size_of(num_of(arrays), batch_size), "observations"), progress)


def _over_devices(
    work: Any, shared: PyTree, arrays: PyTree, batch_size: int | None, progress: bool, devices: tuple[Any, ...]
) -> PyTree:
    """Run `work(shared, _, _, arrays)` for batches of at most `batch_size` on each device, joined.

    A process of a cluster works on its part of the observations without regard to the others, so that one which runs
    out of memory can take smaller batches. In the end all of them have everything.
    """
    num = num_of(arrays)
    size = min(_size_of(num, batch_size), -(-num // _CELLS))
    own = tuple(device for device in devices if device.process_index == jax.process_index())
    ends = _shares(-(-num // size), devices)
    first, last = (min(end * size, num) for end in (ends[jax.process_index()], ends[jax.process_index() + 1]))
    if last == first:
        raise ValueError(
            f"there must be a batch for each process, got {num} observations in batches of {size} for "
            f"{jax.process_count()} processes: give a smaller `batch_size`, or start fewer processes."
        )

    def run(*arrays: PyTree) -> PyTree:
        height = num_of(arrays) // len(own)
        rows = jax.tree.map(lambda leaf: ShardedRows.of(leaf, own).array, arrays)
        return gathered(in_pieces(work, rows, height, OnDevices(own, shared, cells=len(own))))

    part = jax.tree.map(lambda leaf: np.asarray(leaf)[first:last], arrays)
    return _from_all_processes(_shown(run, part, AtMost(size, "observations", times=len(own)), progress))


def _shares(num_batches: int, devices: tuple[Any, ...]) -> list[int]:
    """Return the batch with which each process begins, and the number of batches: as many as it has devices."""
    before = [sum(d.process_index < process for d in devices) for process in range(jax.process_count() + 1)]
    return [num_batches * count // len(devices) for count in before]


def _from_all_processes(tree: PyTree) -> PyTree:
    """Return the rows of all processes, one after the other."""
    if jax.process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import process_allgather

    nums = np.asarray(process_allgather(np.asarray(num_of(tree))))

    def join(leaf: AnyArray) -> Array:
        filled = np.zeros((nums.max(), *leaf.shape[1:]), leaf.dtype)
        filled[: len(leaf)] = leaf
        everyone = np.asarray(process_allgather(filled))
        return jnp.concatenate([part[:num] for part, num in zip(everyone, nums, strict=True)])

    return jax.tree.map(join, tree)


def _shown(run: Callable[..., Any], arrays: PyTree, at_once: AtMost, progress: bool) -> PyTree:
    """Run `run(*arrays)` in batches, with a line that says how far it is."""
    clock = Clock()
    with display(progress) as show:

        def observe(parts: list[Any], num_done: int, num: int) -> None:
            left = clock.seconds_left((num - num_done) / (at_once.rows * at_once.times))
            show(_line(parts, num_done, num, left), num_done / num)

        return in_pieces(lambda part: run(*part), arrays, at_once, is_filled=True, observe=observe)


def _line(done: list[Any], num_done: int, num: int, seconds_left: float | None) -> str:
    """Return how far a run is, in a few words."""
    line = f"{num_done} of {num} observations"
    if isinstance(done[0], DecoderBounds):
        parts = {"lower": jnp.concatenate([part.lower for part in done])[:num_done]}
        if done[0].reverse.shape[1]:
            parts["upper"] = jnp.concatenate([part.upper for part in done])[:num_done]
        line += "".join(f", {name} {float(jnp.mean(values)):.3f}" for name, values in parts.items())
    return line if seconds_left is None else f"{line}, {datetime.timedelta(seconds=round(seconds_left))} left"
