"""Draws and where a reversible kernel for a density took them: if they have the density, the two can change places."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..evaluation import AbstractEvaluator

Matrix = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]
Square = Float[np.ndarray, "d d"]
Sizes = Float[np.ndarray, "n 1"]

_NUM_MOVES = 3
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
    """The columns that stand for combinations of interest."""

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

    def extended(self, rows: Matrix) -> Matrix:
        """All coordinates and combinations."""
        standard = self.standard(rows)
        return np.concatenate([standard, standard @ self.rotation[:, self.combined]], axis=1)

    def extended_scores(self, scores: Matrix) -> Matrix:
        """Derivatives of the log density in each of them."""
        standard = scores * self.spread
        return np.concatenate([standard, standard @ self.rotation[:, self.combined]], axis=1)

    def loaded(self, index: int) -> list[int]:
        """The coordinates that one of them stands for."""
        dimension = len(self.center)
        if index < dimension:
            return [index]
        loads = np.abs(self.rotation[:, self.combined[index - dimension]])
        return [int(j) for j in np.argsort(-loads) if loads[j] > 0.5 * loads.max()]


def has_slopes(evaluator: AbstractEvaluator) -> bool:
    base: Any = evaluator.path.base
    return getattr(base, "backend", "jax") == "jax" or base.gradient is not None


def step_sizes(axes: Axes, rows: Matrix, scores: Matrix | None) -> np.ndarray:
    """By direction: what both the draws and the density can bear, whichever of them is narrower."""
    rotated = axes.standard(rows) @ axes.rotation
    steps = 1.4826 * np.median(np.abs(rotated - np.median(rotated, axis=0)), axis=0)
    if scores is not None:
        steepness = 1.4826 * np.median(np.abs(scores * axes.spread @ axes.rotation), axis=0)
        steps = np.minimum(steps, np.where(steepness > 0, 1 / steepness, np.inf))
    return steps / len(steps) ** 0.25


def moved_draws(
    evaluator: AbstractEvaluator, rows: Matrix, axes: Axes, steps: np.ndarray, stream: Any
) -> tuple[Matrix, Matrix | None, Matrix]:
    """Draws where the density is positive, the scores there, and where a reversible kernel took each of them.

    The step size of a draw is random, and stays the same: several moves of a reversible kernel are reversible.
    """
    with_slopes = has_slopes(evaluator)
    log_base, slopes = evaluator.base(rows, with_slopes=with_slopes)
    inside = np.isfinite(log_base)
    rows, log_base = rows[inside], log_base[inside]
    sizes, moves = stream.split(2)
    size = np.exp(np.log(_SMALLEST) + np.log(_LARGEST / _SMALLEST) * sizes.uniform((len(rows), 1)))
    factor = axes.spread[:, None] * axes.rotation * steps
    if with_slopes:
        scores = slopes[inside]
        return rows, scores, _by_leapfrog(evaluator, Start(rows, log_base, scores), factor, size, moves)
    return rows, None, _by_walking(evaluator, Start(rows, log_base, None), factor, size, moves)


class Start(NamedTuple):
    """Where moves start."""

    rows: Matrix
    log_base: Column
    scores: Matrix | None


def _by_leapfrog(
    evaluator: AbstractEvaluator, start: Start, factor: Square, size: Float[np.ndarray, "n 1"], stream: Any
) -> Matrix:
    """After one move of Hamiltonian Monte Carlo; `factor` takes velocities to changes of the position."""
    speeds, accepts = stream.split(2)
    first = velocity = speeds.normal(start.rows.shape)
    position, log_new, slope = start.rows, start.log_base, start.scores
    for _ in range(_NUM_MOVES):
        velocity = velocity + 0.5 * size * (slope @ factor)
        position = position + size * (velocity @ factor.T)
        log_new, slope = evaluator.base(position, with_slopes=True)
        velocity = velocity + 0.5 * size * (slope @ factor)
    energy = log_new - start.log_base + 0.5 * np.sum(first**2 - velocity**2, axis=1)
    accepted = np.log(accepts.uniform((len(position),))) < energy
    return np.where(accepted[:, None], position, start.rows)


def _by_walking(
    evaluator: AbstractEvaluator, start: Start, factor: Square, size: Float[np.ndarray, "n 1"], stream: Any
) -> Matrix:
    """After some moves of a random walk."""
    rows, log_base, _ = start
    for one in stream.split(_NUM_MOVES):
        speeds, accepts = one.split(2)
        proposed = rows + 2 / rows.shape[1] ** 0.25 * size * (speeds.normal(rows.shape) @ factor.T)
        log_new = evaluator.base(proposed, with_slopes=False)[0]
        accepted = np.log(accepts.uniform((len(rows),))) < log_new - log_base
        rows, log_base = np.where(accepted[:, None], proposed, rows), np.where(accepted, log_new, log_base)
    return rows


def sign_probability(differences: Column) -> float:
    """Of a signed rank sum as large as this if every sign is a fair coin: Hoeffding's bound, which is rigorous."""
    from scipy.stats import rankdata

    differences = differences[differences != 0]
    if differences.size == 0:
        return 1.0
    ranks = rankdata(np.abs(differences))
    standardized = float(np.sum(np.sign(differences) * ranks)) / math.sqrt(float(np.sum(ranks**2)))
    return min(1.0, 2 * math.exp(-0.5 * standardized**2))
