"""The exchange test: draws of a density can change places with their images under a reversible kernel."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import Stream, quiet
from ..kernels import HMC, LeapfrogParams, RandomWalk
from ..rows import OneDensity, Particles
from ..stats import effective_size

Matrix = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]
Square = Float[np.ndarray, "d d"]

NUM_MOVES = 3
"""Evaluations for each draw."""
_SMALLEST, _LARGEST = 0.4, 1.4
"""Step sizes as a share of the width of the narrowest part."""
MOST_SQUARED, _MOST_COMBINED = 2000, 8
"""Dimensions up to which pairs of coordinates are looked at, and combinations that are."""
_MOST = 2048
"""Draws that are moved, spread over the chains."""
_MOST_SQUARED = 500
"""Dimensions up to which combinations of coordinates are tested."""
_CERTAIN = 1e-4
"""Probability of noise, of all tests together, below which draws are said to have another density."""


class Axes(NamedTuple):
    """Coordinates without units: those of a point first, then some combinations that vary more than any of them."""

    center: np.ndarray
    spread: np.ndarray
    """From quantiles, which need no finite moments."""
    rotation: Square
    """Columns are orthogonal directions, the identity where the coordinates hardly depend on each other."""
    combined: np.ndarray
    """The columns that represent combinations of interest."""

    @staticmethod
    def of(rows: Matrix) -> "Axes":
        center = np.median(rows, axis=0)
        spread = 1.4826 * np.median(np.abs(rows - center), axis=0)
        spread = np.where(spread > 0, spread, np.std(rows, axis=0))
        dimension = rows.shape[1]
        identity = Axes(center, spread, np.eye(dimension), np.zeros(0, int))
        if not 1 < dimension <= MOST_SQUARED:
            return identity
        # Bounded numbers have correlations whatever the tails are.
        values, vectors = np.linalg.eigh(np.corrcoef(np.tanh(identity.standard(rows)).T))
        combined = np.flatnonzero(values > 2)[::-1][:_MOST_COMBINED]
        return identity._replace(rotation=vectors, combined=combined) if combined.size else identity

    def standard(self, rows: Matrix) -> Matrix:
        return (rows - self.center) / self.spread

    def extended(self, rows: Matrix) -> Float[np.ndarray, "n e"]:
        """Return all coordinates and combinations."""
        standard = self.standard(rows)
        return np.concatenate([standard, standard @ self.rotation[:, self.combined]], axis=1)

    def extended_scores(self, scores: Matrix) -> Float[np.ndarray, "n e"]:
        """Return the derivatives of the log density in each of them."""
        standard = scores * self.spread
        return np.concatenate([standard, standard @ self.rotation[:, self.combined]], axis=1)

    def loaded(self, index: int) -> list[int]:
        """Return the coordinates that one of them represents."""
        dimension = len(self.center)
        if index < dimension:
            return [index]
        loads = np.abs(self.rotation[:, self.combined[index - dimension]])
        return [int(j) for j in np.argsort(-loads) if loads[j] > 0.5 * loads.max()]


def step_sizes(axes: Axes, rows: Matrix, scores: Matrix | None) -> np.ndarray:
    """Return a step size for each direction: what both the draws and the density can bear."""
    rotated = axes.standard(rows) @ axes.rotation
    steps = 1.4826 * np.median(np.abs(rotated - np.median(rotated, axis=0)), axis=0)
    if scores is not None:
        steepness = 1.4826 * np.median(np.abs(scores * axes.spread @ axes.rotation), axis=0)
        steps = np.minimum(steps, np.where(steepness > 0, 1 / steepness, np.inf))
    return steps / len(steps) ** 0.25


def draws_inside(evaluator: OneDensity, rows: Matrix) -> Particles:
    """Evaluate draws, and keep those where the density is positive."""
    particles = evaluator.particles(rows, with_slopes=evaluator.with_slopes)
    inside = np.isfinite(particles.features)
    return jax.tree.map(lambda leaf: leaf[inside], particles)


def moved_draws(evaluator: Any, particles: Particles, axes: Axes, steps: np.ndarray, stream: Stream) -> Particles:
    """Move each draw by a reversible kernel.

    The step size of a draw is random, and stays the same: several moves of a reversible kernel are reversible.
    """
    sizes, moves = stream.split(2)
    num = len(particles.position)
    size = np.exp(np.log(_SMALLEST) + np.log(_LARGEST / _SMALLEST) * sizes.uniform((num,)))
    factor = (axes.spread[:, None] * axes.rotation * steps)[None]
    if evaluator.with_slopes:
        trajectory = HMC(1, NUM_MOVES, step_size=1.0, jitter=0.0)
        return trajectory.move(evaluator, 0.0, particles, moves.rows(num), LeapfrogParams(factor, size))[0]
    kernel = RandomWalk(NUM_MOVES)
    noise, uniform = kernel.randomness(moves.rows(num), particles.position, NUM_MOVES)
    params = 2 / particles.position.shape[1] ** 0.25 * factor
    for one, accepts in zip(size[:, None] * noise, uniform, strict=True):
        particles, _ = kernel.transition(evaluator, 0.0, particles, (one, accepts), params)
    return particles


def sign_probability(differences: Column) -> float:
    """Bound the probability of a signed rank sum as large as this if every sign is a fair coin (Hoeffding's bound)."""
    from scipy.stats import rankdata

    differences = differences[differences != 0]
    if differences.size == 0:
        return 1.0
    ranks = rankdata(np.abs(differences))
    standardized = float(np.sum(np.sign(differences) * ranks)) / math.sqrt(float(np.sum(ranks**2)))
    return min(1.0, 2 * math.exp(-0.5 * standardized**2))


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
        change = new - measures
        ranks = np.argsort(np.argsort(np.abs(change), axis=0), axis=0) + 1
        measured.append(measures.reshape(*chains, measures.shape[1]))
        signed.append((np.sign(change) * ranks / len(change)).reshape(*chains, measures.shape[1]))
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


def _probability(values: Float[np.ndarray, "chains n"], measured: Float[np.ndarray, "chains n"]) -> float:
    """Return the probability of a mean as far from zero as this, if that of each number is zero.

    Chains that move slowly in what is `measured` say little of the noise of the mean, which Student's t counts.
    """
    from scipy.special import stdtr

    spread = float(np.std(values))
    if not spread > 0:
        return 1.0
    worth = min(effective_size(values), float(values.size))
    freedom = max(effective_size(measured) - 1, 1.0)
    return float(2 * stdtr(freedom, -abs(np.mean(values)) / spread * worth**0.5))
