"""Draws and where a reversible kernel for a density took them: if they have the density, the two can change places."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import Stream
from ..kernels import HMC, LeapfrogParams, RandomWalk
from ..rows import OneDensity, Particles

Matrix = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]
Square = Float[np.ndarray, "d d"]

NUM_MOVES = 3
"""Evaluations for each draw."""
_SMALLEST, _LARGEST = 0.4, 1.4
"""Step sizes as a share of the width of the narrowest part."""
MOST_SQUARED, _MOST_COMBINED = 2000, 8
"""Dimensions up to which pairs of coordinates are looked at, and combinations that are."""


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
        """All coordinates and combinations."""
        standard = self.standard(rows)
        return np.concatenate([standard, standard @ self.rotation[:, self.combined]], axis=1)

    def extended_scores(self, scores: Matrix) -> Float[np.ndarray, "n e"]:
        """Derivatives of the log density in each of them."""
        standard = scores * self.spread
        return np.concatenate([standard, standard @ self.rotation[:, self.combined]], axis=1)

    def loaded(self, index: int) -> list[int]:
        """The coordinates that one of them represents."""
        dimension = len(self.center)
        if index < dimension:
            return [index]
        loads = np.abs(self.rotation[:, self.combined[index - dimension]])
        return [int(j) for j in np.argsort(-loads) if loads[j] > 0.5 * loads.max()]


def step_sizes(axes: Axes, rows: Matrix, scores: Matrix | None) -> np.ndarray:
    """By direction: what both the draws and the density can bear, whichever of them is narrower."""
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


def moved_draws(
    evaluator: OneDensity, particles: Particles, axes: Axes, steps: np.ndarray, stream: Stream
) -> Particles:
    """Move each draw by a reversible kernel.

    The step size of a draw is random, and stays the same: several moves of a reversible kernel are reversible.
    """
    sizes, moves = stream.split(2)
    num = len(particles.position)
    size = np.exp(np.log(_SMALLEST) + np.log(_LARGEST / _SMALLEST) * sizes.uniform((num,)))
    factor = (axes.spread[:, None] * axes.rotation * steps)[None]
    if evaluator.with_slopes:
        return _by_leapfrog(evaluator, particles, LeapfrogParams(factor, size), moves.rows(num))
    return _by_walking(evaluator, particles, factor, size, moves.rows(num))


def _by_leapfrog(evaluator: Any, particles: Particles, params: LeapfrogParams, rows: Any) -> Particles:
    """After one move of Hamiltonian Monte Carlo."""
    kernel = HMC(1, NUM_MOVES, step_size=1.0, jitter=0.0)
    return kernel.move(evaluator, 0.0, particles, rows, params)[0]


def _by_walking(evaluator: Any, particles: Particles, factor: Any, size: Column, rows: Any) -> Particles:
    """After some moves of a random walk."""
    kernel = RandomWalk(NUM_MOVES)
    noise, uniform = kernel.randomness(rows, particles.position, NUM_MOVES)
    params = 2 / particles.position.shape[1] ** 0.25 * factor
    for one, accepts in zip(size[:, None] * noise, uniform, strict=True):
        particles, _ = kernel.transition(evaluator, 0.0, particles, (one, accepts), params)
    return particles


def sign_probability(differences: Column) -> float:
    """Of a signed rank sum as large as this if every sign is a fair coin: Hoeffding's bound, which is rigorous."""
    from scipy.stats import rankdata

    differences = differences[differences != 0]
    if differences.size == 0:
        return 1.0
    ranks = rankdata(np.abs(differences))
    standardized = float(np.sum(np.sign(differences) * ranks)) / math.sqrt(float(np.sum(ranks**2)))
    return min(1.0, 2 * math.exp(-0.5 * standardized**2))
