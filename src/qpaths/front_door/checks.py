"""Checks of what a user gives, before anything runs, and of the draws in the end."""

import re
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._types import Point, Rows
from ..algorithms.islands import Islands
from ..arrays import quiet, to_host
from ..densities import DensityLike, evaluate, is_numpy
from ..evaluation import AbstractEvaluator
from ..paths.base import EndpointValues
from ..references.reference import log_mass
from ..remarks import Finding, Remark

_NUM_DRAWN = 512
"""Draws from the base at which it is looked at."""
_NUM_PROBED, _NUM_AGAIN = 64, 8
_UNBALANCED = 0.001
"""Probability of noise below which scores are said not to balance."""
_PROBES = 256
"""Points beyond the draws at which a target without hard bounds must have mass."""


class Probe(NamedTuple):
    """The endpoints at some draws from the base, and what these show."""

    features: Any
    is_normalized: bool
    """False where the base is seen not to integrate to 1."""
    findings: list[Remark]


def check_deterministic(evaluator: AbstractEvaluator, positions: Rows, features: EndpointValues) -> None:
    """Raise where a density does not always give the same number at the same point.

    A NumPy density is called again. Of a JAX density each compiled program gives the same numbers for ever, so it is
    traced twice: random numbers that do not come from a key are constants, and other ones in the second program.
    """
    ends = {"base": evaluator.path.base, "target": evaluator.path.target}
    again = None
    for name, density in ends.items():
        if is_numpy(density):
            again = to_host(evaluator.values(positions[:_NUM_AGAIN])) if again is None else again
            values, new = (getattr(part, f"log_{name}")[:_NUM_AGAIN] for part in (features, again))
            if not np.array_equal(values, new, equal_nan=True):
                where = int(np.argmax(values != new))
                point = evaluator.layout.points(positions[where])
                raise ValueError(
                    f"`{name}.log_prob` is not deterministic: at the point {point} it gave {values[where]}, and then "
                    f"{new[where]}. A log density must always give the same number at the same point."
                )
        elif len({_trace(density, name, evaluator.layout.points(positions[0])) for _ in range(2)}) > 1:
            raise ValueError(
                f"`{name}.log_prob` is not deterministic: JAX traced it twice, and its constants differ. It probably "
                f"calls NumPy's random numbers. A log density must always give the same number at the same point."
            )


def _trace(density: DensityLike, name: str, point: Point) -> str:
    """The program of a density as text, with its constants: the same for every trace of the same function."""
    program = jax.make_jaxpr(lambda x: evaluate(density, x, name))(point)
    constants = [np.asarray(constant).tobytes() for constant in program.consts if hasattr(constant, "dtype")]
    return f"{re.sub('0x[0-9a-f]+', '', str(program.jaxpr))} {constants}"


@quiet()
def probe(evaluator: AbstractEvaluator, stream: Any) -> Probe:
    """Whether the base is visibly not normalised, or the target a multiple of it."""
    draw, check = stream.split(2)
    positions = evaluator.draw(draw, _NUM_DRAWN)
    mass = log_mass(evaluator, to_host(positions), stream=check)
    is_normalized = mass is None or abs(mass[0]) <= max(5 * mass[1], 0.02)
    findings = []
    if mass is not None and not is_normalized:
        findings.append(Finding.NOT_NORMALIZED(log_mass=mass[0], error=mass[1]))
    few = positions[:_NUM_PROBED]
    features = to_host(evaluator.values(few))
    check_deterministic(evaluator, few, features)
    ratios = features.log_target - features.log_base
    if np.isfinite(ratios).all():
        rounding = (
            8
            * np.finfo(evaluator.layout.dtype).eps
            * max(np.abs(features.log_target).max(), np.abs(features.log_base).max())
        )
        if np.ptp(ratios) <= rounding:
            findings.append(Finding.CONSTANT(value=float(np.exp(ratios[0])), num=_NUM_PROBED))
    return Probe(features, is_normalized, findings)


class Balance(NamedTuple):
    """Whether the target's scores balance over the draws, as they do over draws from all of the target."""

    imbalance: float
    """Length of the mean score in units of the draws' own spread, less what noise makes of it."""
    probability: float
    """With which noise alone would make the most conspicuous coordinate of the mean so large."""

    @property
    def error(self) -> float:
        """What it adds to the standard error: nothing unless it is beyond noise.

        Draws of a normal distribution that miss a share p of its mass on one side have a mean score of p to 2 p in such
        units, and put the log evidence off by p or a little more.
        """
        return self.imbalance if self.probability < _UNBALANCED else 0.0


def balance(evaluator: AbstractEvaluator, islands: Islands, num_draws: int) -> Balance:
    """Look at the mean of the target's score over some draws, which is zero for a target without hard bounds (Stein).

    Draws that end where the target does not (before the neck of a funnel, say) leave it open at that end, even if every
    run ends there. The noise is what the means of the islands show; `_less_noise` takes most of it away first.
    """
    from scipy.special import stdtr

    num_islands = islands.log_weights.shape[0]
    each = max(1, min(islands.log_weights.shape[1], num_draws // num_islands))
    rows, scores, outside = _scores(evaluator, evaluator.layout.rows(islands.samples)[:, :each])
    if outside.any() or not np.isfinite(scores).all():
        return Balance(0.0, 1.0)
    weights = np.exp(islands.log_weights - np.max(islands.log_weights, axis=1, keepdims=True))[:, :each, None]
    values = _less_noise(rows, scores, weights.reshape(-1, 1)).reshape(num_islands, each, -1)
    means = np.sum(weights * values, axis=1) / np.sum(weights, axis=1)
    mean, noise = means.mean(axis=0), np.std(means, axis=0, ddof=1) / num_islands**0.5
    tail = 2 * stdtr(num_islands - 1, -np.abs(mean) / np.maximum(noise, 1e-300))
    spread = np.atleast_2d(np.cov(rows.T, aweights=weights.ravel()))
    imbalance = max(0.0, float(mean @ spread @ mean - np.diag(spread) @ noise**2)) ** 0.5
    return Balance(imbalance, min(1.0, float(np.min(tail)) * tail.size))


def _less_noise(
    rows: Float[np.ndarray, "n d"], scores: Float[np.ndarray, "n d"], weights: Float[np.ndarray, "n 1"]
) -> Float[np.ndarray, "n d"]:
    """The scores less what the virials `x_j score_j + 1` explain of them, which have mean zero as well.

    Where the scale of some coordinates depends on another (funnels, hierarchical models) the score of that other is
    mostly the sum of their virials, and what is left of it tells a missing end from a tenth of the draws.
    """
    num, dimension = scores.shape
    if num < 20 * dimension:
        return scores

    def mean(values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"]:
        return np.sum(weights * values, axis=0) / np.sum(weights)

    virials = (rows - mean(rows)) * scores + 1.0
    root = np.sqrt(weights)
    coefficients = np.linalg.lstsq(root * (virials - mean(virials)), root * (scores - mean(scores)), rcond=None)[0]
    return scores - virials @ coefficients


def _scores(evaluator: AbstractEvaluator, rows: Any) -> tuple[Any, Any, Any]:
    """Rows of all islands, the target's scores there, and at which points beyond them the target has no mass."""
    rows = np.asarray(rows, float).reshape(-1, rows.shape[-1])
    particles = evaluator.particles(rows, with_slopes=True)
    # Differences of draws reach beyond them in every direction in which they spread.
    beyond = rows + 3 * (np.roll(rows, 1, axis=0) - np.roll(rows, 2, axis=0))
    outside = evaluator.values(beyond[:_PROBES]).log_target
    return rows, *to_host((evaluator.score(1.0, particles), outside == -np.inf))
