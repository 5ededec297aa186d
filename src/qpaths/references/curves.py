"""Triangular maps fitted to draws: which coordinates bend which others, and by how much.

Each coordinate is a regression on those before it, with a mean that is linear or quadratic and a log scale that is
linear, fitted by maximum likelihood. A term that bends must earn its place: it is admitted if it raises the likelihood
of draws to which it was not fitted. A conditional law is fitted rightly even where the draws miss the ends of a
coordinate that drives others (the neck of a funnel), so that the next run reaches farther.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..core import one_thread, quiet
from ..maps import Bends, Chain, Conditional, Permute, Pulls, Scale, clear_terms, least_squares
from ..remarks import Refusal
from .components import Component
from .fitting import Fit, HostRows, Matrix, degrees_of_freedom, fit_reference, looks_bimodal

_HEAVIEST, _LIGHTEST = 5.0, 10.0
"""Degrees of freedom of the noise: heavy, since a coordinate that drives others may end too early in the draws."""
_CONSPICUOUS = 4.5
"""Correlation in standard errors above which a term is tried."""
_MOST_TERMS = 6
"""Most terms of each kind for one coordinate."""
_GAIN = 0.05
"""Nats per draw, on draws that were left out, for which a curved map is preferred to a linear one."""
_MOST_GAIN = 10.0
"""Nats by which a single draw may speak for a term, or against it."""
_OUTER = 0.02
"""Share of the draws on either side that are pulled in before a mean is taken away."""
_LARGEST = 250
"""Dimensions up to which curves are looked for."""
_GRID = np.exp(np.linspace(-9.0, 15.0, 49))
"""Precisions of pulls that are tried, in units of a coordinate's own standardized scale."""
_PULL_GAIN = 5.0
"""Nats that the pull of a coordinate must gain over all draws."""


class _Regression(NamedTuple):
    """One coordinate given those before it."""

    mean: Float[np.ndarray, " j"]
    intercept: float
    log_scale: float
    squares: Float[np.ndarray, " j"]
    slopes: Float[np.ndarray, " j"]


class _Terms(NamedTuple):
    """Which earlier coordinates bend the mean and the log scale of one."""

    squares: Int[np.ndarray, " a"]
    slopes: Int[np.ndarray, " b"]


_NONE = _Terms(np.zeros(0, int), np.zeros(0, int))


def fit_map(positions: Any, scores: Any = None, frame: Chain | None = None) -> Fit:
    """A Student-t distribution through a triangular map, curved where that is better on draws that were left out.

    The linear map is fitted to draws and scores (`fit_reference`), the curved one to draws alone. A curved map in the
    coordinates of `frame`, a linear map, must be clearly better than one in the coordinates as they are.
    """
    x = np.asarray(positions, float)
    with one_thread(), quiet():
        linear = fit_reference(x, scores)
        curved, gain = _fit_curved(x)
        if frame is not None:
            # A linear map has the same likelihood in both, so that gains over it can be compared.
            inner, inner_gain = _fit_curved(frame.inverse(x).noise)
            if inner is not None and inner_gain > gain + _GAIN:
                curved = Chain.of(inner, frame)
        if curved is None:
            return linear
        noise = curved.inverse(x).noise
        if not np.isfinite(noise).all() or looks_bimodal(noise):
            return Fit(None, Refusal.SEVERAL_GROUPS) if linear.fitted is None else linear
        df = float(np.clip(degrees_of_freedom(noise), _HEAVIEST, _LIGHTEST))
        first: Any = curved.layers[0]
        shrunk = first.with_parts(log_scales=first.log_scales + 0.5 * np.log((df - 2) / df))
        return Fit(Component(df, Chain.of(shrunk, *curved.layers[1:])), None)


def best_fit(positions: Any, scores: Any, of_base: Chain, frame: Chain | None = None) -> Fit:
    """The most likely of three maps of draws: fitted as they are, or after a map of the base, with pulls or without."""
    x = np.asarray(positions, float)
    plain = fit_map(x, scores, frame)
    fits = [] if plain.fitted is None else [plain.fitted]
    with one_thread(), quiet():
        for outer in (of_base, fit_pulls(of_base, x)):
            if outer is None:
                continue
            at = outer.inverse(x)
            slopes = None if scores is None else outer.pull_back(at, np.asarray(scores, float))
            found = fit_map(at.noise, slopes).fitted
            if found is not None:
                fits.append(Component(found.df, Chain.of(found.map, outer)))
        if not fits:
            return plain
        return Fit(max(fits, key=lambda fitted: float(np.mean(fitted.log_prob(x)))), None)


@quiet()
def fit_pulls(prior: Chain, positions: HostRows) -> Chain | None:
    """Fit the most likely pulls to draws of the posterior; None where no coordinate is pulled.

    Only coordinates whose scale depends on others need it. For each precision the place is a least-squares fit.
    """
    first: Any = prior.layers[0]
    slopes = slopes_of(prior)
    if slopes is None:
        return None
    v = Chain(prior.layers[1:], prior.width).inverse(positions).noise
    law = first.law(v)
    means, log_scales = (np.broadcast_to(part, v.shape) for part in (law.means, law.log_scales))
    places, precisions = np.zeros(prior.dimension), np.zeros(prior.dimension)
    for j in np.flatnonzero(np.any(slopes != 0, axis=1)):
        own, mean, variance = v[:, j], means[:, j], np.exp(2 * log_scales[:, j])
        strength = _GRID[:, None] * variance
        pull, spread = strength / (1 + strength), variance / (1 + strength)
        target = own - mean * (1 - pull)
        place = np.sum(pull * target / spread, axis=1) / np.sum(pull**2 / spread, axis=1)
        fits = -0.5 * np.sum((target - place[:, None] * pull) ** 2 / spread + np.log(spread), axis=1)
        plain = -0.5 * np.sum((own - mean) ** 2 / variance + np.log(variance))
        best = int(np.argmax(fits))
        if fits[best] > plain + _PULL_GAIN:
            places[j], precisions[j] = place[best], _GRID[best]
    if not precisions.any():
        return None
    return Chain.of(first.with_parts(pulls=Pulls(places, precisions)), *prior.layers[1:])


def slopes_of(fitted: Chain) -> Matrix | None:
    """Return the slopes of log scales in a map that was fitted here; None where there are none."""
    first = fitted.layers[0]
    bends = [part for part in getattr(first, "features", ()) if isinstance(part, Bends)]
    return bends[0].slopes if bends else None


def _fit_curved(x: HostRows) -> tuple[Chain | None, float]:
    """The best curved map over a few orders of the coordinates; None where a linear one is as good.

    Also what it gains over the linear one per draw, on draws that were left out.
    """
    num, dimension = x.shape
    if dimension < 2 or dimension > _LARGEST or num < 8 * dimension + 50:
        return None, 0.0
    center, scale = np.median(x, axis=0), np.std(x, axis=0)
    if not (scale > 0).all() or not np.isfinite(scale).all():
        return None, 0.0
    v = (x - center) / scale
    best, best_gain = None, _GAIN
    for order in _orders(v):
        terms, gain = _admitted(v[:, order])
        if gain > best_gain:
            best, best_gain = (order, terms), gain
    if best is None:
        return None, 0.0
    order, terms = best
    return _assembled(v[:, order], terms, center, scale, order), best_gain


def _assembled(v: HostRows, terms: list[_Terms], center: Any, scale: Any, order: Int[np.ndarray, " d"]) -> Chain | None:
    dimension = v.shape[1]
    means, squares, slopes = (np.zeros((dimension, dimension)) for _ in range(3))
    intercepts, log_scales = np.zeros(dimension), np.zeros(dimension)
    for j in range(dimension):
        found = _fit(v[:, :j], v[:, j], terms[j])
        means[j, :j], squares[j, :j], slopes[j, :j] = found.mean, found.squares, found.slopes
        intercepts[j], log_scales[j] = found.intercept, found.log_scale
    if not (squares.any() or slopes.any()):  # no term was clear of noise in the fit to all draws
        return None
    bends = Bends(*(part if part.any() else None for part in (squares, slopes)))
    first = Conditional.of(means, log_scales, bends, intercepts=intercepts)
    return Chain.of(first, Permute(order), Scale(center, scale))


# Which terms.


def _orders(v: HostRows) -> list[Int[np.ndarray, " d"]]:
    """Orders of the coordinates: those that drive the scales of others first, those that drive means, and both."""
    num = len(v)
    log_size = np.log(np.abs(v - np.median(v, axis=0)) + 1e-12)
    of_scales = _drivers(_correlations(log_size, v), num)
    of_means = _drivers(_correlations(v, _without_linear(v)), num)
    orders = [np.argsort(-score, kind="stable") for score in (of_scales, of_means, of_scales + of_means)]
    kept = {tuple(order.tolist()): order for order in orders}
    return list(kept.values())


def _correlations(left: Float[np.ndarray, "n a"], right: Float[np.ndarray, "n b"]) -> Float[np.ndarray, "a b"]:
    a, b = ((part - part.mean(axis=0)) / np.maximum(part.std(axis=0), 1e-300) for part in (left, right))
    return a.T @ b / len(left)


def _without_linear(v: HostRows) -> HostRows:
    """Squares of the columns less what the columns themselves explain of them."""
    squared = np.minimum(v**2, 25.0)
    centered = v - v.mean(axis=0)
    slope = np.sum(centered * squared, axis=0) / np.sum(centered**2, axis=0)
    return squared - squared.mean(axis=0) - slope * centered


def _drivers(correlations: Matrix, num: int) -> Float[np.ndarray, " d"]:
    """Return how much each column drives others, less how much it is driven."""
    strength = np.where(np.abs(correlations) * num**0.5 > _CONSPICUOUS, correlations**2, 0.0)
    np.fill_diagonal(strength, 0.0)
    return strength.sum(axis=0) - strength.sum(axis=1)


def _admitted(v: HostRows) -> tuple[list[_Terms], float]:
    """The terms of each coordinate that pass on the other half of the draws, and what they gain there per draw."""
    half = len(v) // 2
    terms, total = [_NONE], 0.0
    for j in range(1, v.shape[1]):
        tried = _tried(v[:, :j], v[:, j])
        if not (tried.squares.size or tried.slopes.size):
            terms.append(_NONE)
            continue
        none = _NONE.squares
        sets = {(a.tobytes(), b.tobytes()): _Terms(a, b) for a in (tried.squares, none) for b in (tried.slopes, none)}
        plain = _left_out(v, j, _NONE, half)
        best, best_gain = _NONE, 0.0
        for option in sets.values():
            gains = np.clip(_left_out(v, j, option, half) - plain, -_MOST_GAIN, _MOST_GAIN)
            gain, noise = float(np.mean(gains)), float(np.std(gains)) / len(gains) ** 0.5
            if np.isfinite(gain) and gain > max(best_gain, 2 * noise):
                best, best_gain = option, gain
        terms.append(best)
        total += best_gain
    return terms, total


def _tried(before: HostRows, own: Float[np.ndarray, " n"]) -> _Terms:
    """Earlier coordinates whose squares go with the residual, or which go with the log of its size."""
    # A few draws far out, as in the prior of a scale with a heavy tail, must not decide about the mean.
    found = _fit(before, np.clip(own, *np.quantile(own, [_OUTER, 1 - _OUTER])), _NONE)
    residual = (own - found.intercept - before @ found.mean)[:, None]
    size = np.log(np.abs(residual) + 1e-12)
    of_means, of_scales = _correlations(residual, _without_linear(before)), _correlations(size, before)
    return _Terms(*(_strongest(part[0], len(own)) for part in (of_means, of_scales)))


def _strongest(correlations: Float[np.ndarray, " j"], num: int) -> Int[np.ndarray, " k"]:
    strength = np.abs(correlations) * num**0.5
    order = np.argsort(-strength)[:_MOST_TERMS]
    return np.sort(order[strength[order] > _CONSPICUOUS])


def _left_out(v: HostRows, j: int, terms: _Terms, half: int) -> Float[np.ndarray, " n"]:
    """Log likelihood of coordinate j at the draws of each half, fitted to the other."""
    parts = []
    for fitted, judged in ((v[:half], v[half:]), (v[half:], v[:half])):
        found = _fit(fitted[:, :j], fitted[:, j], terms)
        before, own = judged[:, :j], judged[:, j]
        log_scale = found.log_scale + before @ found.slopes
        residual = own - found.intercept - before @ found.mean - before**2 @ found.squares
        parts.append(-log_scale - 0.5 * (residual * np.exp(-log_scale)) ** 2)
    return np.concatenate(parts)


# One regression.


def _fit(before: HostRows, own: Float[np.ndarray, " n"], terms: _Terms) -> _Regression:
    num, width = before.shape
    ones = np.ones(num)
    squares, slopes = np.zeros(width), np.zeros(width)
    of_mean = np.column_stack([ones, before, before[:, terms.squares] ** 2])
    if terms.slopes.size:
        mean, log_scales = clear_terms(of_mean, np.column_stack([ones, before[:, terms.slopes]]), own)
        slopes[terms.slopes] = log_scales[1:]
    else:
        mean = least_squares(of_mean, ones, own)
        log_scales = 0.5 * np.log(np.mean((own - of_mean @ mean) ** 2, keepdims=True) + 1e-300)
    squares[terms.squares] = mean[1 + width :]
    return _Regression(mean[1 : 1 + width], float(mean[0]), float(log_scales[0]), squares, slopes)
