"""Maps in which a few coordinates drive all others, fitted to weighted draws."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import one_thread, quiet
from ..maps import (
    Chain,
    Conditional,
    Drivers,
    Permute,
    Rotate,
    Scale,
    features_of,
    least_squares,
    mean_and_log_scale,
    solved,
)
from .components import Component
from .fitting import HostRows, Matrix

_KNOTS = (6, 4)
"""Knots for a single driver, and for each of several."""
_NUM_EARLIER, _NUM_BEFORE = 24, 2
"""Earlier coordinates on which the mean of a coordinate depends, and those of them whose slopes depend on drivers."""
_LIGHTEST = 30.0
_NUM_FITS, _BOOST = 3, 1.0
"""Fits, and by how many nats the weight of draws that are far above the fit may grow from one to the next."""
_MISSED, _MOST_MISSED = 3.0, 1e-3
"""Nats above a fit at which the target is missed there, and the mass that may be missed."""
_NUM_CAPPED = 20
"""Largest weights that are made equal."""


class Design(NamedTuple):
    """Draws of all coordinates, after a rotation if there is one, to which a map with these drivers is fitted.

    `log_target` is the log density of the target at the draws, by the normal approximation to the rest; NaN where that
    is not known. `mass` are the shares of the target that draws represent, as far as they represent any.
    """

    drivers: tuple[int, ...]
    rotation: Matrix | None
    rows: HostRows
    weights: Float[np.ndarray, " n"]
    log_target: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]

    def and_draws(self, rows: HostRows, log_weights: Any) -> "Design":
        """These draws and some weighted ones, which count for as much; no single one counts for too much."""
        log_weights = np.minimum(log_weights, np.sort(log_weights)[-_NUM_CAPPED])
        weights = np.exp(log_weights - np.max(log_weights))
        weights *= np.sum(self.weights) / np.sum(weights)
        rows = rows if self.rotation is None else rows @ self.rotation
        new = rows, weights, np.full(len(rows), np.nan), np.zeros(len(rows))
        joined = (np.concatenate(parts) for parts in zip(self[2:], new, strict=True))
        return Design(self.drivers, self.rotation, *joined)

    def fit(self) -> Component:
        """Student-t noise through a map that is modulated by the drivers.

        Where the target is far above the fit, draws from it would have huge weights or, more likely, never appear. The
        fit is repeated with more weight on such places, until they have hardly any mass.
        """
        weights, least = self.weights, np.inf
        with one_thread(), quiet():
            for _ in range(_NUM_FITS):
                fitted = Component(_LIGHTEST, _fit_map(self._replace(weights=weights)), num_drivers=len(self.drivers))
                points = self.rows if self.rotation is None else self.rows @ self.rotation.T
                excess = self.log_target - fitted.log_prob(points)
                excess = np.nan_to_num(excess - _median(excess, self.mass))
                missed = float(np.sum(self.mass[excess > _MISSED]) / np.sum(self.mass))
                if missed < least:
                    best, least = fitted, missed  # in the first round, too
                if missed < _MOST_MISSED:
                    break
                weights = weights * np.exp(np.clip(excess, 0.0, _BOOST))
        return best


def _fit_map(design: Design) -> Chain:
    drivers, x = design.drivers, design.rows
    num_drivers = len(drivers)
    num, dimension = x.shape
    weights = design.weights * (num / design.weights.sum())
    order = np.array([*drivers, *(i for i in range(dimension) if i not in drivers)])
    center = weights @ x / num
    scale = np.sqrt(weights @ (x - center) ** 2 / num)
    v = ((x - center) / scale)[:, order]
    knots = np.quantile(v[:, :num_drivers], np.linspace(0.01, 0.99, _KNOTS[num_drivers > 1]), axis=0).T
    features = features_of(v, knots)
    width = features.shape[1]
    means, log_scales = np.zeros((dimension, dimension)), np.zeros(dimension)
    shifts, widths = np.zeros((dimension, width)), np.zeros((dimension, width))
    before, turns = np.zeros((dimension, _NUM_BEFORE), int), np.zeros((dimension, _NUM_BEFORE, width))
    for j in range(num_drivers):
        slope = least_squares(v[:, :j], weights, v[:, j])
        means[j, :j] = slope
        log_scales[j] = 0.5 * np.log(weights @ (v[:, j] - v[:, :j] @ slope) ** 2 / num)
    everything = np.column_stack([features, v[:, num_drivers:]])
    gram = everything.T @ (everything * weights[:, None])
    for j in range(num_drivers, dimension):
        own = width + j - num_drivers
        slopes = solved(gram[:own, :own], gram[:own, own])[width:]
        strongest = num_drivers + np.argsort(-np.abs(slopes))[:_NUM_EARLIER]
        plain = np.column_stack([features, v[:, strongest]])
        turned = strongest[:_NUM_BEFORE]
        of_mean = np.column_stack([plain, *(features[:, 1:] * v[:, [i]] for i in turned)])
        found, widths[j] = mean_and_log_scale(of_mean, features, v[:, j], weights)
        shifts[j], means[j, strongest] = found[:width], found[width : plain.shape[1]]
        before[j, : len(turned)] = turned
        turns[j, : len(turned), 1:] = found[plain.shape[1] :].reshape(len(turned), width - 1)
    first = Conditional.of(means, log_scales, Drivers(knots, shifts, widths, before, turns))
    rotation = [] if design.rotation is None else [Rotate(design.rotation)]
    return Chain.of(first, Permute(order), Scale(center, scale), *rotation)


def _median(values: Any, weights: Any) -> Any:
    known = np.isfinite(values)
    if not known.any():  # a fit that overflows everywhere, which has no draws of any use either
        return 0.0
    order = np.argsort(values[known])
    cumulative = np.cumsum(weights[known][order])
    return values[known][order][np.searchsorted(cumulative, 0.5 * cumulative[-1])]
