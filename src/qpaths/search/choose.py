"""Rules for q: the paper's three, and a fourth that maximizes what the sampler itself achieves."""

import difflib
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core import PRNGKey, Stream, check_num, quiet, to_host
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath, Ordered, QPath
from ..recipe import check_parts
from ..rows import evaluator_of, stream_for
from ..schedules import AbstractFixedSchedule, AbstractSchedule
from .compare import Contest, compare
from .heuristics import ess_heuristic, rho_rule

METHODS = ("bound", "ess", "grid", "rho")
GRID = np.logspace(-5, -1, 20)
"""The deltas of the paper's grid search."""


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

    - `"bound"`: runs SMC with `kernel` for every delta = 1 - q of `deltas` at once. It keeps the half with the higher
      mean log Z-hat, a lower bound of the log evidence, until one is left. With a fixed `schedule` all are judged on
      it. Otherwise each gets a schedule with equal steps. Geometric (delta = 0) unless another is better in
      fresh runs, beyond noise.
    - `"ess"`: the paper's heuristic (Algorithm 1): the first beta and q at which half of the draws from the base are
      effective, the best of 100 restarts of Powell's method. A fixed `schedule` fixes the first beta.
      `qpaths.search.ess_heuristic` also returns the beta, and takes other numbers of restarts.
    - `"rho"`: `q = 1 - 1 / max |log w|` over draws from the base (eq. rho_choice), where nothing overflows; q = 0 where
      every |log w| is below 1. `qpaths.search.rho_rule` takes weights.
    - `"grid"`: the delta with the smallest median error of SMC against a known `log_evidence`.

    Args:
        path: A path with an order q, such as `GeometricPath` or `QPath`.
        key: The key of the pilots.
        method: One of the rules above.
        schedule: A fixed schedule, the number of distributions, or None for adaptive pilots.
        kernel: Moves the particles of the pilots; `HMC(num_leapfrog=5)` by default.
        num_particles: Particles of each pilot, or draws from the base.
        num_seeds: Runs of each candidate in the first round.
        deltas: Values of 1 - q to try; by default the paper's grid, and 0.
        log_evidence: The known answer, for `"grid"`.

    Returns:
        The q-path with the chosen order. With a tuned schedule the choice matters little.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> chosen = qp.choose_q(path, key=jax.random.key(0), method="rho", num_particles=100)
        >>> bool(0.9 < chosen.q < 1.0)
        True
    """
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, 1)
        hint = f"did you mean {near[0]!r}?" if near else "'bound' needs nothing but the path."
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}: {hint}")
    if not isinstance(path, Ordered):
        raise TypeError(
            f"`path` must be one of a family over q, such as `GeometricPath` or `QPath`, got {type(path).__name__}."
        )
    check_num("num_particles", num_particles)
    check_num("num_seeds", num_seeds, smallest=1)
    kernel = HMC(num_leapfrog=5) if kernel is None else kernel
    check_parts(kernel, *([] if schedule is None or isinstance(schedule, int) else [schedule]))
    stream = stream_for(key, path, pilots=True)

    def of_order(delta: Any) -> QPath:
        return path.with_delta(delta)  # type: ignore[return-value]

    if method == "rho":
        return of_order(rho_rule(_log_weights(path, stream, kernel, num_particles)))
    if method == "ess":
        draw, restart = stream.split(2)
        log_weights = _log_weights(path, draw, kernel, num_particles)
        first = float(schedule.betas[1]) if isinstance(schedule, AbstractFixedSchedule) else None
        log_scale = float(to_host(getattr(path, "log_scale", 0.0)))
        return of_order(ess_heuristic(log_weights, key=restart, first_beta=first, log_scale=log_scale).delta)
    if method == "grid" and log_evidence is None:
        raise ValueError("`log_evidence` must be given for `method='grid'`: it compares with a known truth, got None.")
    if log_evidence is not None and not math.isfinite(log_evidence):
        raise ValueError(
            f"`log_evidence` must be finite, got {log_evidence}: it is the known truth of `method='grid'`."
        )
    candidates = _candidates(deltas)
    if method == "bound":
        return of_order(compare(path, candidates, schedule, kernel, num_particles, num_seeds, key=stream).delta)
    draw, run = stream.split(2)
    contest = Contest(path, kernel, num_particles)
    candidates, betas = contest.schedules(candidates, schedule, draw)
    indices = np.repeat(np.arange(len(candidates)), num_seeds)
    values = contest.run(candidates[indices], betas[indices], run)
    errors = np.median(np.abs(values.reshape(-1, num_seeds) - log_evidence), axis=1)
    return of_order(candidates[np.argmin(errors)])


def _candidates(deltas: Any) -> Float[np.ndarray, " candidates"]:
    values = np.concatenate([[0.0], GRID]) if deltas is None else np.unique(np.asarray(deltas, float).ravel())
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"`deltas` must be finite numbers (delta = 1 - q), got {deltas!r}.")
    return values


def _log_weights(
    path: AbstractPath[Any], stream: Stream, kernel: AbstractKernel[Any], num: int
) -> Float[np.ndarray, " n"]:
    """Log target over base at draws from the base; `-inf` where the target has no mass."""
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
    num_finite = int(np.isfinite(log_weights).sum())
    if num_finite < 2:
        raise FloatingPointError(
            f"`target.log_prob` is -inf at {num - num_finite} of {num} draws from the base: take one that reaches it."
        )
    return log_weights
