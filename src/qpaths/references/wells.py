"""Coordinates with several modes each, found by scans along single coordinates.

A target with two wells along each of many coordinates has more modes than anyone can list. A pilot that anneals through
them ends with few ancestors. It knows the share of each well badly and may have lost one. A scan knows both. It moves
one coordinate of a draw over a grid while the others stay. This gives the density of that coordinate given the others.
The mean over a few draws is an estimate of its marginal density (Rao-Blackwell), and a mixture of normal distributions
is fitted to it. Such a reference cannot describe groups that differ in several coordinates at once.
"""

import functools
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from ..core import Stream, logsumexp, quiet
from ..maps import Chain, Marginal, Permute, Scale, Triangular
from ..rows import Evaluator, in_pieces
from .components import Component
from .fitting import fit_reference

_NUM_SCANS, _NUM_COARSE, _NUM_POINTS, _MARGIN = 6, 64, 96, 0.1
"""Draws through which scans go, points of a first scan and of a second one where the mass is, and by how much a scan
goes beyond what draws reach."""
_FARTHEST = 100.0
"""Ranges of the draws from them at which scans end, however wide the base is: points would be too far apart."""
_EMPTY, _NOTHING = 20.0, -700.0
"""Nats below the highest density at which there is no mass, and a log density of nothing at all."""
_DIP, _SMALLEST, _FEWEST_POINTS = 1.0, 0.003, 3.0
"""Nats by which the density falls between two modes, the least mass of a mode, and the points it must spread over."""
_NUM_PARTS, _NUM_EM, _WIDER, _WIDE_SHARE = 6, 200, 1.02, 0.03
"""Parts of a mixture, steps of their fit, by how much they are widened, and the share of a wider density."""
_MOST_NUMBERS = 2**22
"""Most numbers of all points that are evaluated together."""
_DF = 30.0
_PER_DIMENSION = 10
"""Draws for each dimension from which on the correlations of the other coordinates are fitted."""

Draws = Float[np.ndarray, "_ d"]
Grid = Float[np.ndarray, "_ g"]
Scans = Float[np.ndarray, "s _ g"]


def num_scanned(dimension: int) -> int:
    """Values of the target that `fit_wells` takes."""
    return _NUM_SCANS * (_NUM_COARSE + _NUM_POINTS) * dimension


@quiet()
def fit_wells(evaluator: Evaluator, draws: Draws, stream: Stream, correlated: bool) -> Component | None:
    """Mixtures for the coordinates that have several modes, Student-t noise for the others.

    The others have the correlations of the draws, or none. None where no coordinate has several modes, or a mode is
    too narrow for the grid.
    """
    draws = np.asarray(draws, float)
    through = draws[np.linspace(0, len(draws) - 1, _NUM_SCANS).astype(int)]
    points = grid(draws, np.asarray(evaluator.draw(stream, _NUM_POINTS), float), _NUM_COARSE)
    points = _where_mass_is(points, logsumexp(scan(evaluator, through, points), axis=0))
    each = scan(evaluator, through, points)
    log_density = logsumexp(each, axis=0) - np.log(_NUM_SCANS)
    with_wells = has_several(log_density, points, _SMALLEST)
    in_each = np.array([has_several(one, points, _SMALLEST) for one in each])
    # Groups that a single coordinate cannot leave: only their mixture has several modes.
    if not with_wells.any() or (in_each != with_wells).any() or not np.isfinite(np.max(log_density, axis=1)).all():
        return None
    mass = np.exp(log_density) * _widths(points)
    if not all(
        is_resolved(mass[j, own]) for j in range(len(mass)) for own in modes(log_density[j], points[j], _SMALLEST)
    ):
        return None
    center = np.sum(mass * points, axis=1)
    scale = np.sqrt(np.sum(mass * (points - center[:, None]) ** 2, axis=1))
    order = np.concatenate([np.flatnonzero(with_wells), np.flatnonzero(~with_wells)])
    num_wells = int(with_wells.sum())
    noise = ((points - center[:, None]) / scale[:, None])[order[:num_wells]]
    wells = fit_mixtures(noise, mass[order[:num_wells]])
    others = ((draws - center) / scale)[:, order[num_wells:]]
    factor, df = _with_others(others if correlated else others[:0], num_wells)
    first = (Triangular.of if factor.ndim == 2 else Scale)(np.zeros(len(order)), factor)
    return Component(df, Chain.of(first, Permute(order), Scale(center, scale)), wells)


def grid(draws: Draws, base_draws: Draws, num: int) -> Grid:
    """Points along each coordinate, from end to end of what draws of the target and most of the base reach."""
    first, last = np.min(draws, axis=0), np.max(draws, axis=0)
    far = _FARTHEST * (last - first)
    lowest = np.clip(np.quantile(base_draws, 0.01, axis=0), first - far, first)
    highest = np.clip(np.quantile(base_draws, 0.99, axis=0), last, last + far)
    margin = _MARGIN * (highest - lowest)
    return np.linspace(lowest - margin, highest + margin, num).T


def _where_mass_is(points: Grid, log_density: Grid) -> Float[np.ndarray, "_ _"]:
    """Return as many points as a second scan has, from the first to the last given one that has mass nearby."""
    has_mass = log_density > np.max(log_density, axis=1, keepdims=True) - _EMPTY
    first = np.maximum(np.argmax(has_mass, axis=1) - 1, 0)
    last = np.minimum(points.shape[1] - np.argmax(has_mass[:, ::-1], axis=1), points.shape[1] - 1)
    rows = np.arange(len(points))
    return np.linspace(points[rows, first], points[rows, last], _NUM_POINTS).T


def scan(evaluator: Evaluator, through: Draws, points: Grid, coordinates: Any = None) -> Scans:
    """Log density of each coordinate at its points, even or not, given the other coordinates of some draws."""
    coordinates = np.arange(through.shape[1]) if coordinates is None else np.asarray(coordinates)
    return normalized(scanned_values(evaluator, through, points, coordinates), points[coordinates])


@quiet()
def normalized(values: Scans, points: Grid) -> Scans:
    """Log densities along scans from values of the log target."""
    return np.nan_to_num(values - logsumexp(values + np.log(_widths(points)), keepdims=True), nan=-np.inf)


@quiet()
def scanned_values(evaluator: Evaluator, through: Draws, points: Grid, coordinates: Any) -> Scans:
    """Log target of draws with one of some coordinates at each of its points; `-inf` where it is not a number."""
    num_together = max(1, _MOST_NUMBERS // (len(through) * points.shape[1] * through.shape[1]))

    def along(some: Any) -> Scans:
        return _values(evaluator, through, points, some)

    found = in_pieces(along, coordinates, num_together, join=functools.partial(np.concatenate, axis=1))
    return np.nan_to_num(found, nan=-np.inf)


def _values(evaluator: Evaluator, through: Draws, points: Grid, coordinates: Any) -> Scans:
    """Log target of draws with one coordinate at each of its points."""
    shape = (len(through), len(coordinates), points.shape[1])
    rows = np.broadcast_to(through[:, None, None], (*shape, through.shape[1])).copy()
    for number, j in enumerate(coordinates):
        rows[:, number, :, j] = points[j]
    return np.asarray(evaluator.values(rows.reshape(-1, rows.shape[-1])).log_target, float).reshape(shape)


def _widths(points: Grid) -> Grid:
    """Return the length of the stretch around each point of a grid."""
    return np.gradient(points, axis=-1)


@quiet()
def masses(log_density: Float[np.ndarray, "*s g"], points: Float[np.ndarray, " g"]) -> Float[np.ndarray, "*s h"]:
    """Mass between neighboring points, of 1 in all. In between the log density is taken to be linear.

    So a wide gap next to a point in the tail has hardly any mass.
    """
    logs = np.maximum(log_density - np.max(log_density, axis=-1, keepdims=True), _NOTHING)
    rise, density = np.diff(logs, axis=-1), np.exp(logs)
    is_flat = np.abs(rise) < 1e-6
    mean = np.where(is_flat, density[..., 1:], np.diff(density, axis=-1) / np.where(is_flat, 1.0, rise))
    mass = mean * np.diff(points, axis=-1)
    return mass / np.sum(mass, axis=-1, keepdims=True)


def has_several(log_density: Grid, points: Grid, least: float) -> Bool[np.ndarray, " d"]:
    """Which coordinates have several modes."""
    return np.array([len(modes(*one, least)) > 1 for one in zip(log_density, points, strict=True)])


def modes(log_density: Float[np.ndarray, " g"], points: Float[np.ndarray, " g"], least: float) -> list[slice]:
    """Stretches of `masses` with one peak each, between which the density falls by enough, and with enough mass."""
    cuts, peak, dip, lowest = [0], log_density[0], np.inf, 0
    for i, value in enumerate(log_density):
        if value < dip:
            dip, lowest = value, i
        if min(peak, value) - dip > _DIP:
            cuts.append(lowest)
            peak, dip = value, np.inf
        elif value > peak:
            peak, dip = value, np.inf
    stretches = [slice(start, end) for start, end in zip(cuts, [*cuts[1:], len(log_density) - 1], strict=True)]
    mass = masses(log_density, points)
    return [own for own in stretches if np.sum(mass[own]) > least]


def is_resolved(mass: Float[np.ndarray, " _"]) -> bool:
    """Return whether a mode spreads over enough points of a grid for its mass to be known."""
    return bool(np.sum(mass) ** 2 > _FEWEST_POINTS * np.sum(mass**2))


def fit_mixtures(noise: Grid, mass: Grid) -> Marginal:
    """Maximum likelihood for points with masses, all coordinates at once, from parts at quantiles.

    The quantiles, and a small share of the masses, are those of the square root of the density. Small modes and the
    flanks of all modes then have separate parts. Without them few draws lie there, and have huge weights.
    """
    num = len(noise)
    levels = (np.arange(_NUM_PARTS) + 0.5) / _NUM_PARTS
    wide = np.sqrt(mass * _widths(noise))
    wide /= np.sum(wide, axis=1, keepdims=True)
    below = np.cumsum(wide, axis=1)
    mass = (1 - _WIDE_SHARE) * mass + _WIDE_SHARE * wide
    centers = np.array([np.interp(levels, own, at) for own, at in zip(below, noise, strict=True)])
    shares, scales = np.full((num, _NUM_PARTS), 1 / _NUM_PARTS), np.full((num, _NUM_PARTS), 0.5 / _NUM_PARTS)
    # Points are the last axis, and all moments of the parts come from one product of matrices: scans of hundreds of
    # coordinates took a fifth of a run where each moment had its own pass over the parts.
    points, powers = noise[:, None], np.stack([np.ones_like(noise), noise, noise**2], axis=-1)
    parts = np.empty((num, _NUM_PARTS, noise.shape[1]))
    for _ in range(_NUM_EM):
        np.subtract(points, centers[:, :, None], out=parts)
        parts *= (0.5**0.5 / scales)[:, :, None]
        np.square(parts, out=parts)
        np.subtract(np.log(shares / scales)[:, :, None], parts, out=parts)
        parts -= np.max(parts, axis=1, keepdims=True)
        np.exp(parts, out=parts)
        parts *= (mass / np.sum(parts, axis=1))[:, None]
        zeroth, first, second = np.moveaxis(parts @ powers, -1, 0)
        shares = zeroth + 1e-6
        centers = first / shares
        squares = (second - centers * (2 * first - centers * zeroth)) / shares
        scales = np.sqrt(np.maximum(squares, 0.0) + 1e-8)
        shares = shares / np.sum(shares, axis=1, keepdims=True)
    return Marginal(shares, centers, _WIDER * scales)


def _with_others(others: Draws, num_wells: int) -> tuple[np.ndarray, float]:
    """Return a factor for standardized draws of the other coordinates, 1 for those with wells, and degrees of freedom.

    The factor is a matrix. Where draws are few or nothing can be fitted to them, it is a vector: the scales of the
    scans.
    """
    num, num_others = others.shape
    dimension = num_wells + num_others
    fitted = fit_reference(others).fitted if num_others and num > _PER_DIMENSION * num_others else None
    if fitted is None:
        scales = np.ones(dimension)
        scales[num_wells:] = ((_DF - 2) / _DF) ** 0.5
        return scales, _DF
    linear: Any = fitted.map.layers[0]
    factor = np.eye(dimension)
    factor[num_wells:, num_wells:] = linear.factor
    return factor, fitted.df
