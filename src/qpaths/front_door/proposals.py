"""References fitted to posterior draws, and the search for modes that the draws miss."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import quiet
from ..densities import Density
from ..references import Component, End, Reference, climb, fit_map
from ..remarks import Refusal
from ..rows import Layout
from ..search import BASE_SHARE

Matrix = Float[np.ndarray, "_ d"]
Values = Float[np.ndarray, " _"]

_WIDER, _WIDE_DF, _FALLBACK_DF = 5.0, 3.0, 5.0
"""How many times wider than the draws the wide distribution is, its degrees of freedom, and those of a last resort."""
_MOST_SPLITS = 3
NUM_STARTS, _NUM_OWN, _MAX_ROUNDS, _GAIN = 64, 8, 60, 1e-4
_SAME, _UNLIKE, _FEWEST, _RARE = 0.2, 3.0, 20, 0.05
"""Distance of ends of ascents that are one mode, nats above the usual ratio to the reference from which a point is not
like the draws, draws that a mode must have to be of interest, and the share of them below which it is missed."""


def wide_density(rows: Matrix, layout: Layout) -> Density:
    """A Student-t distribution around the draws and far beyond them, where there is no prior to draw from.

    In NumPy, because a sampler of JAX would be compiled for every call.
    """
    center, scale = np.mean(rows, axis=0), _WIDER * np.maximum(np.std(rows, axis=0), 1e-12)
    wide = Component.linear(_WIDE_DF, center, np.diag(scale**2))

    def at(points: Any) -> Any:
        return wide.log_prob_and_slope(np.asarray(layout.rows(points), float))

    def sample(generator: np.random.Generator) -> Any:
        noise = generator.standard_normal(len(center)) / np.sqrt(generator.standard_gamma(_WIDE_DF / 2) * 2 / _WIDE_DF)
        return layout.points(center + scale * noise)

    return Density(
        lambda points: at(points)[0],
        sample,
        backend="numpy",
        batched=True,
        gradient=lambda points: layout.points(at(points)[1]),
    )


def reference_for(rows: Matrix, scores: Matrix | None, inner: Any, layout: Layout) -> Reference:
    """A reference fitted to draws, with a little of the prior or the wide distribution."""
    components, shares = _components(rows, scores, _MOST_SPLITS)
    return Reference(tuple(components), np.asarray(shares), inner, BASE_SHARE, layout)


def _components(rows: Matrix, scores: Matrix | None, splits: int) -> tuple[list[Component], list[float]]:
    """One Student-t distribution, perhaps curved, for each group of draws."""
    fit = fit_map(rows, scores)
    if fit.fitted is not None:
        return [fit.fitted], [1.0]
    if fit.refusal is Refusal.SUBSPACE:
        raise ValueError(
            "the draws lie in a subspace of their dimension: a variable may be constant, twice there, or determined by "
            "others (proportions that sum to 1); leave it out, or give the model with its prior as objects."
        )
    groups = _groups(rows) if fit.refusal is Refusal.SEVERAL_GROUPS and splits else None
    if groups is None:
        matrix = np.atleast_2d(np.cov(rows.T)) * (_FALLBACK_DF - 2) / _FALLBACK_DF
        return [Component.linear(_FALLBACK_DF, rows.mean(axis=0), matrix)], [1.0]
    components, shares = [], []
    for group in (groups, ~groups):
        own, weights = _components(rows[group], None if scores is None else scores[group], splits - 1)
        components += own
        shares += [weight * float(np.mean(group)) for weight in weights]
    return components, shares


@quiet()
def _groups(rows: Matrix) -> np.ndarray | None:
    """Which of two groups each draw belongs to: a cut across the direction along which they separate best."""
    standard = (rows - rows.mean(axis=0)) / np.std(rows, axis=0)
    axes = np.vstack([np.eye(rows.shape[1]), np.linalg.eigh(standard.T @ standard)[1].T])
    best, chosen = -np.inf, None
    for values in axes @ standard.T:
        ordered = np.sort(values)
        num = np.arange(1, len(ordered))
        left = np.cumsum(ordered)[:-1]
        # Otsu's rule: the cut with the largest variance between the two groups, as a share of all variance.
        between = (len(ordered) * left - num * ordered.sum()) ** 2 / (num * (len(ordered) - num)) / len(ordered)
        cut = int(np.argmax(between))
        if between[cut] / np.sum((ordered - ordered.mean()) ** 2) > best:
            best = float(between[cut] / np.sum((ordered - ordered.mean()) ** 2))
            chosen = values > 0.5 * (ordered[cut] + ordered[cut + 1])
    fewest = 4 * rows.shape[1] + 4
    return chosen if chosen is not None and min(chosen.sum(), (~chosen).sum()) >= fewest else None


class Elsewhere(NamedTuple):
    """A mode far from all draws, and its height relative to that of the draws."""

    position: np.ndarray
    height: float


@quiet()
def mode_elsewhere(
    gradient: Callable[[Matrix], tuple[Values, Matrix]],
    starts: Matrix,
    rows: Matrix,
    log_target: Values,
    reference: Reference,
) -> tuple[Elsewhere | None, int]:
    """The highest mode that the draws miss among those to which ascents from `starts` lead; also the gradients used.

    Where the target exceeds what was fitted to the draws, draws should do so too: as many as the height of the mode
    says. Distances would not do, since in many dimensions the nearest draw is far from every point. Where ascents from
    the draws lead as well is no other mode (but the neck of a funnel, perhaps).
    """

    def excess(positions: Matrix, values: Values) -> Values:
        """Log of the target over the fitted components alone."""
        return values - np.asarray(reference.given_inner(positions, np.full(len(positions), -np.inf), None)[0])

    spread = np.maximum(np.std(rows, axis=0), 1e-12)
    own = rows[np.linspace(0, len(rows) - 1, _NUM_OWN).astype(int)]
    climbed = climb(gradient, np.concatenate([own, starts]), spread, _MAX_ROUNDS, _GAIN)
    home, away = climbed.position[:_NUM_OWN], climbed.position[_NUM_OWN:]
    apart = np.sqrt(np.mean(np.square((away[:, None] - home) / spread), axis=2))
    height = climbed.value[_NUM_OWN:] - np.median(climbed.value[:_NUM_OWN])
    seen, there = excess(rows, log_target), excess(away, climbed.value[_NUM_OWN:])
    num_seen = np.sum(seen[:, None] > there - 1, axis=0)
    num_expected = len(rows) * np.exp(np.minimum(height, 0.0))
    missed = (climbed.end[_NUM_OWN:] == End.CONVERGED) & (np.mean(apart < _SAME, axis=1) < 0.5)
    missed &= (there > np.median(seen) + _UNLIKE) & (num_expected > _FEWEST) & (num_seen < _RARE * num_expected)
    if not missed.any():
        return None, climbed.num_evaluations
    best = int(np.argmax(np.where(missed, height, -np.inf)))
    return Elsewhere(away[best], float(height[best])), climbed.num_evaluations


def points_as_text(layout: Layout, position: np.ndarray) -> str:
    """A point for a sentence, with three digits."""
    return str(jax.tree.map(lambda leaf: np.round(np.asarray(leaf, float), 3).tolist(), layout.points(position)))
