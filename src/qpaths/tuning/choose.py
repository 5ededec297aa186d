"""Rules for q: the paper's three, and the one that maximises what the sampler itself achieves."""

import difflib
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._numerics import log_ess, log_power_mean_pair
from .._types import PRNGKey
from ..algorithms import SMC
from ..algorithms.checks import check_num, check_parts
from ..annealing import anneal
from ..arrays import quiet, to_host
from ..evaluation import evaluator_of, stream_for
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath, QPath
from ..results import Status
from ..schedules import AbstractFixedSchedule, AbstractSchedule, AdaptiveSchedule, FixedSchedule, respace

METHODS = ("bound", "ess", "grid", "rho")
GRID = np.logspace(-5, -1, 20)
"""The deltas of the paper's grid search."""
_MAX_STEPS = 1000
_RESTARTS = 100
"""Of the optimizer in the ESS heuristic, as in the paper."""


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
    stream = stream_for(key, path, pilots=True)
    if method == "rho":
        return with_delta(path, 1 / _largest_log_weight(_log_weights(path, stream, kernel, num_particles)))
    if method == "ess":
        return with_delta(path, _ess_heuristic(path, stream, kernel, num_particles, schedule)[1])
    if method == "grid" and log_evidence is None:
        raise ValueError("`log_evidence` must be given for `method='grid'`: it compares with a known truth, got None.")
    if log_evidence is not None and not math.isfinite(log_evidence):
        raise ValueError(
            f"`log_evidence` must be finite, got {log_evidence}: it is the known truth of `method='grid'`."
        )
    candidates = _candidates(deltas)
    if method == "bound":
        return with_delta(path, compare(path, candidates, schedule, kernel, num_particles, num_seeds, key=stream).delta)
    draw, run = stream.split(2)
    candidates, betas = _schedules(path, candidates, schedule, kernel, num_particles, draw)
    indices = np.repeat(np.arange(len(candidates)), num_seeds)
    values = _judge(path, kernel, num_particles, candidates[indices], betas[indices], run)
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


def _log_weights(
    path: AbstractPath[Any], stream: Any, kernel: AbstractKernel[Any], num: int
) -> Float[np.ndarray, " n"]:
    """Log target over base at draws from the base, those of positive mass."""
    evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
    positions = evaluator.draw(stream, num)
    values = to_host(evaluator.values(positions))
    with quiet():
        log_weights = values.log_target - values.log_base
    if np.isnan(log_weights).any() or (log_weights == np.inf).any():
        where = int(np.argmax(np.isnan(log_weights) | (log_weights == np.inf)))
        point = evaluator.layout.points(to_host(positions[where]))
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
    path: AbstractPath[Any],
    stream: Any,
    kernel: AbstractKernel[Any],
    num: int,
    schedule: AbstractSchedule | int | None,
) -> tuple[float, float]:
    """Algorithm 1 of the appendix, with its 100 restarts and spread of 0.1 in log10 of rho: first beta and 1 / rho."""
    import scipy.optimize

    draw, restart = stream.split(2)
    log_weights = _log_weights(path, draw, kernel, num)
    first = float(schedule.betas[1]) if isinstance(schedule, AbstractFixedSchedule) else None
    log_scale = to_host(getattr(path, "log_scale", 0.0))

    @quiet()
    def loss(beta: float, log_rho: float) -> float:
        # The base's own value does not matter: the weights are those of the path over the base.
        delta = 10.0**-log_rho
        ess = np.exp(log_ess(log_power_mean_pair(beta, 0.0, log_weights, delta, delta * log_scale))) / log_weights.size
        return float(np.square(ess - 0.5))

    log_rho = np.log10(_largest_log_weight(log_weights))
    starts = log_rho + 0.1 * np.asarray(restart.normal((_RESTARTS,)))
    anywhere = (-np.inf, np.inf)
    best, best_loss = (1.0, log_rho), np.inf
    for start in starts:
        if first is None:
            found = scipy.optimize.minimize(
                lambda v: loss(v[0], v[1]), [1.0, start], method="Powell", bounds=[(1e-12, 1.0), anywhere]
            )
        else:
            found = scipy.optimize.minimize(lambda v: loss(first, v[0]), [start], method="Powell")
        if found.fun < best_loss:
            best, best_loss = (first or float(found.x[0]), float(found.x[-1])), found.fun
    return best[0], 10.0 ** -best[1]


def _schedules(
    path: AbstractPath[Any],
    deltas: Float[np.ndarray, " candidates"],
    schedule: AbstractSchedule | int | None,
    kernel: AbstractKernel[Any],
    num_particles: int,
    key: Any,
) -> tuple[Float[np.ndarray, " kept"], Float[np.ndarray, "kept num"]]:
    """The candidates that can be judged, and the betas on which each is; one that does not reach 1 is dropped."""
    if isinstance(schedule, AbstractFixedSchedule):
        return deltas, np.tile(np.asarray(schedule.betas), (len(deltas), 1))
    if isinstance(schedule, int):
        check_num("schedule", schedule)
    target_ess = schedule.target_ess if isinstance(schedule, AdaptiveSchedule) else 0.5
    algorithm = SMC(num_particles, AdaptiveSchedule(target_ess, max_num=_MAX_STEPS), kernel)
    runs: list[tuple[float, Any]] = []
    for delta in deltas:
        # From the same draws for all: what differs then is the path.
        annealing, state = algorithm.begin(with_delta(path, delta), key=key)
        try:
            state, stats = anneal(annealing, state, record=lambda _, stats: {n: stats[n] for n in ("beta", "length")})
        except RuntimeError:  # too many steps
            continue
        if float(state.beta) >= 1:
            runs.append((float(delta), stats))
    if not runs:
        raise RuntimeError(
            f"no adaptive run reached beta = 1 in {_MAX_STEPS} steps for any of the deltas {deltas.tolist()}: take "
            f"more particles, a lower `target_ess`, or a fixed schedule."
        )
    kept = np.array([delta for delta, _ in runs])
    num = schedule if isinstance(schedule, int) else 1 + runs[int(np.argmin(np.abs(kept)))][1]["beta"].size
    return kept, np.stack([respace(np.append(0.0, s["beta"]), s["length"], num) for _, s in runs])


def _judge(
    path: AbstractPath[Any],
    kernel: AbstractKernel[Any],
    num_particles: int,
    deltas: Float[np.ndarray, " runs"],
    betas: Float[np.ndarray, "runs num"],
    stream: Any,
) -> Float[np.ndarray, " runs"]:
    """Log Z-hat of one run of SMC for each of the given deltas and schedules; `-inf` where no particle has weight."""
    values = []
    for number, (delta, own) in enumerate(zip(deltas, betas, strict=True)):
        algorithm = SMC(num_particles, FixedSchedule(own), kernel)
        annealing, state = algorithm.begin(with_delta(path, delta), key=stream.fold(number))
        state, _ = anneal(annealing, state, record=lambda state, _: {"beta": state.beta})
        values.append(float(state.log_evidence) if int(state.fault.status) == Status.OK else -np.inf)
    return np.array(values)


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
    key: Any,
) -> Winner:
    """Successive halving by the mean log Z-hat: every round makes as many runs, shared by half as many candidates.

    The candidate nearest to the geometric path stays to the end, for the winner to be compared with it. One whose
    adaptive run does not reach beta = 1 has no schedule of its own and is dropped before the first round.
    """
    draw, judge = key.split(2)
    num_given = len(deltas)
    deltas, betas = _schedules(path, deltas, schedule, kernel, num_particles, draw)
    num_dropped = num_given - len(deltas)
    values: list[list[float]] = [[] for _ in deltas]
    alive, geometric = list(range(len(deltas))), int(np.argmin(np.abs(deltas)))
    for number in itertools.count():
        indices = [alive[i % len(alive)] for i in range(len(deltas) * num_seeds)]
        found = _judge(path, kernel, num_particles, deltas[indices], betas[indices], judge.fold(number))
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
