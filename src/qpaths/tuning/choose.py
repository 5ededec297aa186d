"""Rules for q: the paper's three, and the one that maximises what the sampler itself achieves."""

import difflib
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax import Array
from jaxtyping import Float

from .._numerics import log_ess
from .._types import PRNGKey, Scalar
from ..algorithms import SMC
from ..algorithms.base import Annealing, State
from ..algorithms.checks import check_num, check_parts, draw_points, example_of
from ..algorithms.smc import stack
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath, QPath
from ..schedules import AbstractFixedSchedule, AbstractSchedule, AdaptiveSchedule, FixedSchedule, respace

METHODS = ("bound", "ess", "grid", "rho")
GRID = np.logspace(-5, -1, 20)
"""The deltas of the paper's grid search."""
_MAX_STEPS = 1000


def choose_q(
    path: AbstractPath[Any],
    *,
    key: PRNGKey,
    method: str = "bound",
    schedule: AbstractSchedule | int | None = None,
    kernel: AbstractKernel[Any] | None = None,
    num_particles: int = 1000,
    num_seeds: int = 2,
    deltas: Any = None,
    log_evidence: float | None = None,
) -> QPath:
    """The q-path between the endpoints of `path` whose q is chosen by one of four rules.

    - `"bound"`: runs SMC with `kernel` for every delta = 1 - q of `deltas` (the paper's grid and 0 unless given) at
      once and keeps the half with the higher mean log Z-hat, a lower bound of the log evidence, until one is left. With
      a fixed `schedule` all are judged on it. Without, or with a number of distributions, each is judged on a schedule
      of its own with equal steps. Geometric (delta = 0) unless another is better beyond noise.
    - `"ess"`: the paper's heuristic (Algorithm 1): the first beta and q at which half of the draws from the base are
      effective, the best of 100 restarts of Powell's method. A fixed `schedule` fixes the first beta.
    - `"rho"`: `q = 1 - 1 / max |log w|` over draws from the base (eq. rho_choice), where nothing overflows.
    - `"grid"`: the delta with the smallest median error of SMC against a known `log_evidence`.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, 1, 0.0)[0]
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}: did you mean {near!r}?")
    check_num("num_particles", num_particles)
    check_num("num_seeds", num_seeds, smallest=1)
    kernel = HMC(num_leapfrog=5) if kernel is None else kernel
    check_parts(kernel, *([] if schedule is None or isinstance(schedule, int) else [schedule]))
    example_of(path, key)
    if method == "rho":
        return with_delta(path, 1 / _largest_log_weight(_log_weights(path, key, num_particles)))
    if method == "ess":
        return with_delta(path, _ess_heuristic(path, key, num_particles, schedule)[1])
    if method == "grid" and log_evidence is None:
        raise ValueError("`log_evidence` must be given for `method='grid'`: it compares with a known truth, got None.")
    if log_evidence is not None and not math.isfinite(log_evidence):
        raise ValueError(
            f"`log_evidence` must be finite, got {log_evidence}: it is the known truth of `method='grid'`."
        )
    candidates = _candidates(deltas)
    if method == "bound":
        return with_delta(path, compare(path, candidates, schedule, kernel, num_particles, num_seeds, key=key).delta)
    draw_key, run_key = jax.random.split(key)
    candidates, betas = _schedules(path, candidates, schedule, kernel, num_particles, draw_key)
    indices = np.repeat(np.arange(len(candidates)), num_seeds)
    values = _judge(path, kernel, num_particles, candidates[indices], betas[indices], run_key)
    errors = np.median(np.abs(values.reshape(-1, num_seeds) - log_evidence), axis=1)
    return with_delta(path, candidates[np.argmin(errors)])


def with_delta(path: AbstractPath[Any], delta: Any) -> QPath:
    """The q-path with the endpoints of `path`, and its scale where it has one."""
    return QPath(path.base, path.target, delta=delta, log_scale=getattr(path, "log_scale", 0.0))


def _candidates(deltas: Any) -> Float[np.ndarray, " candidates"]:
    values = np.concatenate([[0.0], GRID]) if deltas is None else np.unique(np.asarray(deltas, float).ravel())
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"`deltas` must be finite numbers (delta = 1 - q), got {deltas!r}.")
    return values


def _log_weights(path: AbstractPath[Any], key: PRNGKey, num: int) -> Float[np.ndarray, " n"]:
    """Log target over base at draws from the base, those of positive mass."""
    points = draw_points(path, key, num)
    log_weights = np.asarray(
        jax.jit(lambda path, points: jax.vmap(lambda x: path.target.log_prob(x) - path.base.log_prob(x))(points))(
            path, points
        )
    )
    if np.isnan(log_weights).any() or (log_weights == np.inf).any():
        where = int(np.argmax(np.isnan(log_weights) | (log_weights == np.inf)))
        point = jax.tree.map(lambda leaf: leaf[where], points)
        raise FloatingPointError(
            f"log target minus log base is {log_weights[where]} at the draw {point} from the base: mend it there."
        )
    finite = log_weights[log_weights > -np.inf]
    if finite.size < 2:
        raise FloatingPointError(
            f"`target.log_prob` is -inf at {num - finite.size} of {num} draws from the base: take one that reaches it."
        )
    return finite


def _largest_log_weight(log_weights: Float[np.ndarray, " n"]) -> float:
    return max(float(np.max(np.abs(log_weights))), 1.0)


def _ess_heuristic(
    path: AbstractPath[Any], key: PRNGKey, num: int, schedule: AbstractSchedule | int | None
) -> tuple[float, float]:
    """Algorithm 1 of the appendix, with its 100 restarts and spread of 0.1 in log10 of rho: first beta and 1 / rho."""
    draw_key, restart_key = jax.random.split(key)
    log_weights = jnp.asarray(_log_weights(path, draw_key, num))
    first = float(schedule.betas[1]) if isinstance(schedule, AbstractFixedSchedule) else None
    log_scale = getattr(path, "log_scale", 0.0)

    @jax.jit
    def loss(beta: Scalar, log_rho: Scalar) -> Scalar:
        # The base's own value does not matter: the weights are those of the path over the base.
        unit = QPath(_unused, _unused, delta=10.0**-log_rho, log_scale=log_scale)
        ess = jnp.exp(log_ess(unit.interpolate(beta, 0.0, log_weights))) / log_weights.size
        return jnp.square(ess - 0.5)

    log_rho = np.log10(_largest_log_weight(np.asarray(log_weights)))
    starts = log_rho + 0.1 * np.asarray(jax.random.normal(restart_key, (100,)))
    anywhere = (-np.inf, np.inf)
    best, best_loss = (1.0, log_rho), np.inf
    for start in starts:
        if first is None:
            found = scipy.optimize.minimize(
                lambda v: float(loss(v[0], v[1])), [1.0, start], method="Powell", bounds=[(1e-12, 1.0), anywhere]
            )
        else:
            found = scipy.optimize.minimize(lambda v: float(loss(first, v[0])), [start], method="Powell")
        if found.fun < best_loss:
            best, best_loss = (first or float(found.x[0]), float(found.x[-1])), found.fun
    return best[0], 10.0 ** -best[1]


def _unused(x: Any) -> Array:
    return jnp.zeros(())


def _schedules(
    path: AbstractPath[Any],
    deltas: Float[np.ndarray, " candidates"],
    schedule: AbstractSchedule | int | None,
    kernel: AbstractKernel[Any],
    num_particles: int,
    key: PRNGKey,
) -> tuple[Float[np.ndarray, " kept"], Float[np.ndarray, "kept num"]]:
    """The candidates that can be judged, and the betas on which each is; one that does not reach 1 is dropped."""
    if isinstance(schedule, AbstractFixedSchedule):
        return deltas, np.tile(np.asarray(schedule.betas), (len(deltas), 1))
    if isinstance(schedule, int):
        check_num("schedule", schedule)
    target_ess = schedule.target_ess if isinstance(schedule, AdaptiveSchedule) else 0.5
    algorithm = SMC(num_particles, AdaptiveSchedule(target_ess), kernel)
    annealing, start = algorithm.begin(path, key=key)
    state = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(deltas), *leaf.shape)), start)
    rows: list[Any] = []
    while float(jnp.min(state.beta)) < 1 and len(rows) < _MAX_STEPS:
        state, row = _advance_all(annealing, jnp.asarray(deltas), state)
        rows.append({name: row[name] for name in ("beta", "length")})
    stats = jax.tree.map(np.asarray, stack(rows))
    kept = np.flatnonzero(stats["beta"][-1] >= 1)
    if kept.size == 0:
        raise RuntimeError(
            f"no adaptive run reached beta = 1 in {len(rows)} steps for any of the deltas {deltas.tolist()}: take more "
            f"particles, a lower `target_ess`, or a fixed schedule."
        )
    deltas = deltas[kept]
    steps = [1 + int(np.argmax(stats["beta"][:, i] >= 1)) for i in kept]
    num = schedule if isinstance(schedule, int) else 1 + steps[int(np.argmin(np.abs(deltas)))]
    betas = [
        respace(jnp.concatenate([jnp.zeros(1), stats["beta"][:n, i]]), jnp.asarray(stats["length"][:n, i]), num)
        for i, n in zip(kept, steps, strict=True)
    ]
    return deltas, np.stack(betas)


@jax.jit
def _advance_all(annealing: Annealing, deltas: Float[Array, " candidates"], state: State) -> tuple[State, Any]:
    """One adaptive step of every candidate from its own beta; those at 1 stay there."""

    def advance(delta: Scalar, state: State) -> tuple[State, Any]:
        its_own = Annealing(
            with_delta(annealing.path, delta),
            annealing.kernel,
            annealing.population,
            None,
            annealing.target_ess,
            None,
            annealing.example,
            annealing.key,
        )
        return its_own.step(state)

    return jax.lax.map(lambda pair: advance(*pair), (deltas, state), batch_size=8)


def _judge(
    path: AbstractPath[Any],
    kernel: AbstractKernel[Any],
    num_particles: int,
    deltas: Float[np.ndarray, " runs"],
    betas: Float[np.ndarray, "runs num"],
    key: PRNGKey,
) -> Float[np.ndarray, " runs"]:
    """Log Z-hat of one run of SMC for each of the given deltas and schedules, in one compiled call."""
    keys = jax.random.split(key, len(deltas))
    return np.asarray(_log_evidences(path, kernel, num_particles, jnp.asarray(deltas), jnp.asarray(betas), keys))


@functools.partial(jax.jit, static_argnames="num_particles")
def _log_evidences(
    path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, deltas: Array, betas: Array, keys: Array
) -> Float[Array, " runs"]:
    def run(arguments: tuple[Array, Array, PRNGKey]) -> Scalar:
        delta, betas, key = arguments
        result = SMC(num_particles, FixedSchedule(betas), kernel).run(with_delta(path, delta), key=key)
        return jnp.where(result.status == 0, result.log_evidence, -jnp.inf)

    return jax.lax.map(run, (deltas, betas, keys), batch_size=4)


class Winner(NamedTuple):
    """The delta that was kept, its mean log Z-hat less that of the geometric path, and the error of the difference."""

    delta: float
    gain: float
    gain_se: float
    num_dropped: int
    """Candidates that did not come to the target and were not compared."""


def compare(
    path: AbstractPath[Any],
    deltas: Float[np.ndarray, " candidates"],
    schedule: AbstractSchedule | int | None,
    kernel: AbstractKernel[Any],
    num_particles: int,
    num_seeds: int,
    *,
    key: PRNGKey,
) -> Winner:
    """Successive halving by the mean log Z-hat: every round makes as many runs, shared by half as many candidates.

    The candidate nearest to the geometric path stays to the end, for the winner to be compared with it. One whose
    adaptive run does not reach beta = 1 has no schedule of its own and is dropped before the first round.
    """
    draw_key, key = jax.random.split(key)
    num_given = len(deltas)
    deltas, betas = _schedules(path, deltas, schedule, kernel, num_particles, draw_key)
    num_dropped = num_given - len(deltas)
    values: list[list[float]] = [[] for _ in deltas]
    alive, geometric = list(range(len(deltas))), int(np.argmin(np.abs(deltas)))
    while True:
        key, round_key = jax.random.split(key)
        indices = [alive[i % len(alive)] for i in range(len(deltas) * num_seeds)]
        found = _judge(path, kernel, num_particles, deltas[indices], betas[indices], round_key)
        for i, value in zip(indices, found, strict=True):
            values[i].append(float(value))
        ranked = sorted(alive, key=lambda i: -np.mean(values[i]))
        if len(alive) <= 3:
            break
        kept = ranked[: len(alive) // 2]
        alive = kept if geometric in kept else [*kept, geometric]
    best = ranked[0]
    gain = float(np.mean(values[best]) - np.mean(values[geometric]))
    error = float(np.hypot(_error(values[best]), _error(values[geometric])))
    if deltas[geometric] == 0 and not gain > 2 * error:
        return Winner(0.0, 0.0, error, num_dropped)
    return Winner(float(deltas[best]), gain, error, num_dropped)


def num_runs(num_candidates: int, num_seeds: int) -> int:
    """Runs that `compare` makes, the one for the schedules of each candidate included; an upper bound."""
    rounds = 1 + max(0, math.ceil(math.log2(max(num_candidates, 2) / 2)))
    return num_candidates * (1 + num_seeds * rounds)


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else np.inf
