"""Do the draws of a chain have the density that they are said to have?"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import Stream, quiet
from ..rows import OneDensity, Particles
from ..stats import effective_size
from .exchange import NUM_MOVES, Axes, moved_draws, step_sizes

_MOST = 2048
"""Draws that are moved, spread over the chains."""
_MOST_SQUARED = 500
"""Dimensions up to which combinations of coordinates are tested."""
_CERTAIN = 1e-4
"""Probability of noise, of all tests together, below which draws are said to have another density."""


@quiet()
def drifting(
    evaluator: OneDensity, at: Particles, shape: tuple[int, int], names: list[str], stream: Stream
) -> tuple[list[str], int]:
    """Name what a reversible kernel for the density changes in the draws, and count the evaluations.

    If the draws have the density, each can change places with where the kernel takes it, and the signed rank of every
    difference between the two has mean zero (see `sampler_findings`). Ranks are bounded, whatever the tails are. Draws
    of a chain depend on each other: the standard error of the mean counts what the signed ranks are worth.

    Args:
        evaluator: That of the density.
        at: All draws, evaluated, chain by chain.
        shape: Chains, and draws of each.
        names: Those of the coordinates.
        stream: Of random numbers.

    The kernel is fitted to one half of each chain and moves draws of the other; then the halves change places.
    """
    num_chains, num = shape
    number = np.arange(num_chains * num).reshape(shape)
    halves = number[:, : num // 2], number[:, num // 2 : 2 * (num // 2)]
    stride = -(-2 * halves[0].size // _MOST)
    moved = []
    for half, (fitted, used) in enumerate((halves, halves[::-1])):
        rows = at.position[fitted.ravel()]
        axes = Axes.of(rows)
        steps = step_sizes(axes, rows, None if at.slopes is None else at.slopes[fitted.ravel()])
        before = jax.tree.map(lambda leaf: leaf[used[:, ::stride].ravel()], at)  # noqa: B023
        moved.append(_Moved(axes, before, moved_draws(evaluator, before, axes, steps, stream.fold(half))))
    chains = num_chains, -1
    signed, measured = [], []
    for one, other in (moved, moved[::-1]):
        directions = other.directions()
        measures, new = (one.measures(at, other.axes, directions) for at in (one.before, one.after))
        measured.append(measures.reshape(*chains, measures.shape[1]))
        signed.append(_signed_ranks(new - measures).reshape(*chains, measures.shape[1]))
    each = (np.moveaxis(np.concatenate(parts, axis=1), 2, 0) for parts in (signed, measured))
    probability = np.array([_probability(*pair) for pair in zip(*each, strict=True)])
    place, distance = np.split(probability[1 : 1 + 2 * len(names)], 2)
    likely = np.minimum(place, distance) * len(probability)
    found = [names[j] for j in np.argsort(likely) if likely[j] < _CERTAIN]
    if probability[0] * len(probability) < _CERTAIN:
        found.append("the log density")
    if np.any(probability[1 + 2 * len(names) :] * len(probability) < _CERTAIN):
        found.append("how coordinates depend on each other")
    return found, NUM_MOVES * 2 * len(moved[0].before.position)


class _Moved(NamedTuple):
    """Draws of one half, before and after their moves, and coordinates without units from the other half."""

    axes: Axes
    before: Particles
    after: Particles

    def directions(self) -> Float[np.ndarray, "d k"]:
        """Return combinations in which moves contract and spread the draws most, for a test in the other half."""
        if self.before.position.shape[1] > _MOST_SQUARED:
            return np.zeros((self.before.position.shape[1], 0))
        before, after = (np.tanh(self.axes.standard(at.position)) for at in (self.before, self.after))
        return np.linalg.eigh(after.T @ after - before.T @ before)[1][:, [0, -1]]

    def measures(self, at: Particles, axes: Axes, directions: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "n m"]:
        """Return the log density, each coordinate, its distance from the middle, and that along some directions."""
        standard = self.axes.standard(at.position)
        along = np.tanh(axes.standard(at.position)) @ directions
        return np.column_stack([at.features, standard, np.abs(standard), np.abs(along)])


def _signed_ranks(change: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Ranks by size, between 0 and 1, with the sign of the change."""
    ranks = np.argsort(np.argsort(np.abs(change), axis=0), axis=0) + 1
    return np.sign(change) * ranks / len(change)


def _probability(values: Float[np.ndarray, "chains n"], measured: Float[np.ndarray, "chains n"]) -> float:
    """Of a mean as far from zero as this, if that of each number is zero.

    Chains that move slowly in what is `measured` say little of the noise of the mean, which Student's t counts.
    """
    from scipy.special import stdtr

    spread = float(np.std(values))
    if not spread > 0:
        return 1.0
    worth = min(effective_size(values), float(values.size))
    freedom = max(effective_size(measured) - 1, 1.0)
    return float(2 * stdtr(freedom, -abs(np.mean(values)) / spread * worth**0.5))
