"""Mass around known optima of the target, compared with the draws that are there.

Whatever a search does with the optima that it finds, they say where the target has mass. A few draws around each of
them give a lower bound on that mass. An answer that has less there is wrong, however well its runs agree.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import Stream, logsumexp, one_thread, quiet, sigmoid, softmax
from ..rows import Evaluator
from .ascents import component_at
from .pool import Mode

_INSIDE = 0.9
"""Share of a normal distribution in the region around its optimum that is looked at."""
LEAST = 0.002
"""Share of all mass below which an optimum is of no interest."""
_SUSPICIOUS = 0.5
"""Share of the mass that curvature predicts, from which draws around an optimum are enough."""
_BEYOND_NOISE, _MISSED = 4.0, 0.7
"""Standard errors by which draws must fall short, and the share of the mass that they may have at most, if they miss
it."""
_MOST_OFF = 0.01
"""Share of an estimate of mass that is there for certain."""
_NUM_DRAWS = 128
"""Points around each optimum at which the target is evaluated."""
_MOST_MODES = 16
_MOST_PRODUCTS, _NUM_COMPARED = 2e8, (256, 4096)
"""Products of a draw with a precision matrix that are cheap, and the fewest and the most draws that are compared."""
_MOST_FOUND = 0.999
"""Largest share of the draws around optima that miss mass, so that the rest has a logarithm."""

Matrix = Float[np.ndarray, "n d"]
Values = Float[np.ndarray, " n"]


class Missing(NamedTuple):
    """Optima around which the target has more mass than the draws."""

    modes: tuple[Mode, ...] = ()
    """The one with the largest missing mass first."""
    expected: float = 0.0
    """Share of all mass around them, what is missing included."""
    found: float = 0.0
    """Share of the draws around them."""
    error: float = 0.0
    """Nats by which the log evidence is too small, at least."""


class Sample(NamedTuple):
    """Weighted draws of the target and the log evidence that comes with them."""

    rows: Matrix
    weights: Values
    """They add up to one."""
    effective: float
    """Return how many independent draws they are worth."""
    log_evidence: float

    @staticmethod
    def of(rows: Matrix, log_weights: Values, effective: float, log_evidence: float, stream: Stream) -> "Sample":
        """Return some of the draws, chosen by their weights, as many as are cheap to compare with modes."""
        num = int(np.clip(_MOST_PRODUCTS / rows.shape[1] ** 2, *_NUM_COMPARED))
        cumulative = np.cumsum(softmax(log_weights))
        chosen = np.searchsorted(cumulative, np.asarray(stream.uniform((num,))) * cumulative[-1])
        return Sample(rows[chosen], np.full(num, 1 / num), min(effective, num), log_evidence)


def distinct(modes: tuple[Mode, ...], new: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """Return the modes and those of the new ones that are none of them."""
    found = list(modes)
    for mode in new:
        near = mode.distance(np.array([one.position for one in found])) if found else np.zeros(0)
        if all(found[k].distance(mode.position[None])[0] > 1 for k in np.flatnonzero(~(near > 1))):
            found.append(mode)
    return tuple(found)


@quiet()
def missing_mass(evaluator: Evaluator, modes: tuple[Mode, ...], sample: Sample, stream: Stream) -> tuple[Missing, int]:
    """Compare the mass around known optima with that of draws; also return how many values this took.

    Space is divided among the optima by the normal distributions of their curvature. In the part of each, not far from
    the optimum, importance sampling gives the mass of the target, which is a lower bound on all mass there. Only where
    the draws are fewer than curvature predicts is the target evaluated.
    """
    if np.isnan(sample.log_evidence) or not np.isfinite(sample.weights).all():
        return Missing(), 0
    modes = tuple(mode for mode in modes if mode.log_mass - sample.log_evidence > np.log(LEAST))
    modes = tuple(sorted(modes, key=lambda mode: -mode.log_mass))[:_MOST_MODES]
    if not modes:
        return Missing(), 0
    with one_thread():
        parts = _Parts(modes)
        own = parts.of(sample.rows)
        found = np.array([np.sum(sample.weights[own == k]) for k in range(len(modes))])
        predicted = _INSIDE * softmax(np.append([mode.log_mass for mode in modes], sample.log_evidence))[:-1]
        looked = np.flatnonzero(found < _SUSPICIOUS * predicted)
        if not looked.size:
            return Missing(), 0
        log_mass, noise = parts.masses(evaluator, looked, stream)
        relative = log_mass - sample.log_evidence
        # However wild the weights, an estimate that cannot be negative is rarely a hundred times too large (Markov).
        expected = sigmoid(relative + np.log(np.maximum(1 - _BEYOND_NOISE * noise, _MOST_OFF)))
        likely = np.maximum(found[looked], 1 / sample.effective)
        beyond = np.maximum(_BEYOND_NOISE * np.sqrt(likely / sample.effective), LEAST)
        is_missed = (expected - found[looked] > beyond) & (found[looked] < _MISSED * expected)
    num_values = _NUM_DRAWS * looked.size
    if not is_missed.any():
        return Missing(), num_values
    order = np.argsort(-np.where(is_missed, expected, -1.0))[: int(is_missed.sum())]
    chosen = looked[order]
    share = min(float(np.sum(found[chosen])), _MOST_FOUND)
    # The draws elsewhere have their mass; what is around these optima is more than the draws have there.
    error = float(np.logaddexp(np.log1p(-share), logsumexp(relative[order])))
    missed = tuple(modes[k] for k in chosen)
    return Missing(missed, 1 - (1 - share) * float(np.exp(-error)), share, max(error, 0.0)), num_values


class _Parts:
    """Regions around optima, each of a point closer to its optimum than to the others by their normal densities."""

    def __init__(self, modes: tuple[Mode, ...]):
        from scipy.stats import chi2

        self.modes = modes
        self.components = [component_at(mode) for mode in modes]
        dimension = len(modes[0].position)
        self.radius = float(np.sqrt(chi2.ppf(_INSIDE, dimension) / dimension))

    def of(self, rows: Matrix) -> np.ndarray:
        """Return the number of the part that each row is in, and -1 where it is in none."""
        logs = np.array([mode.log_mass + self._log_prob(k, rows) for k, mode in enumerate(self.modes)])
        own = np.argmax(logs, axis=0)
        away = np.array([mode.distance(rows) for mode in self.modes])[own, np.arange(len(rows))]
        return np.where(away < self.radius, own, -1)

    def masses(self, evaluator: Evaluator, numbers: np.ndarray, stream: Stream) -> tuple[Values, Values]:
        """Return the log mass of the target in some parts, and the relative standard error of each mass."""
        rows = np.concatenate([self.components[k].draw(stream.fold(int(k)), _NUM_DRAWS) for k in numbers])
        log_proposal = logsumexp(np.array([self._log_prob(k, rows) for k in numbers]), axis=0) - np.log(len(numbers))
        values = np.asarray(evaluator.values(rows).log_target, float)
        log_weights = np.where(values < np.inf, values, -np.inf) - log_proposal
        own = self.of(rows)
        masses, errors = [], []
        for k in numbers:
            logs = np.where(own == k, log_weights, -np.inf)
            log_mass = float(logsumexp(logs)) - np.log(len(rows))
            relative = np.exp(logs - log_mass) if np.isfinite(log_mass) else np.zeros(len(rows))
            masses.append(log_mass)
            errors.append(float(np.std(relative)) / len(rows) ** 0.5)
        return np.array(masses), np.array(errors)

    def _log_prob(self, number: Any, rows: Matrix) -> Values:
        return np.asarray(self.components[number].log_prob(rows), float)
