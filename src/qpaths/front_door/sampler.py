"""Does the sampler of the base draw from its density? Two tests: one that is cheap, and one that is exact."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import Stream, quiet, sigmoid
from ..remarks import Finding, Remark
from ..rows import Layout, OneDensity
from .exchange import MOST_SQUARED, Axes, Column, Matrix, draws_inside, moved_draws, sign_probability, step_sizes

_NUM_CONFIRMED = 2048
"""Draws at which a suspicion is confirmed."""
_SUSPICIOUS, _CERTAIN = 0.02, 1e-4
"""Probabilities of noise, of all tests together: below the first one looks closer, below the second it is a finding."""
_MOST_PAIRS = 16
_OUTSIDE = 0.01
"""Share of the draws that may lie where the density is zero, by rounding."""
_FITS, _DIFFERS = 3.5, 4.5
"""Standard errors: a missing Jacobian explains what is off if its identities hold to the first, and fail by the second
without it."""
_JACOBIANS = {
    "exp": lambda x: np.ones_like(x),
    "sigmoid": lambda x: 1 - 2 * sigmoid(x),
    "softplus": lambda x: 1 - sigmoid(x),
}
"""Derivatives of the log Jacobians of the usual ways from an unconstrained number to a positive one, or one in (0, 1).
"""


class Suspect(NamedTuple):
    """A coordinate or combination, or a pair of coordinates, whose draws may not fit the density."""

    first: int
    second: int | None = None

    def measures(self, extended: Matrix) -> list[Column]:
        """What is compared between draws and moved draws."""
        if self.second is None:
            return [extended[:, self.first], np.abs(extended[:, self.first])]
        one, other = np.tanh(extended[:, self.first]), np.tanh(extended[:, self.second])
        return [one * other, one**2 * other, one * other**2, one**2 * other**2]


@quiet()
def sampler_findings(evaluator: OneDensity, rows: Matrix, stream: Stream) -> list[Remark]:
    """What shows that draws from the base, of which `rows` are some, do not have its density.

    The evaluator is that of the base.

    Stein's identities at the given draws, one gradient each, say where to look. They are not exact: hard bounds break
    them, and heavy tails disturb them. So fresh draws are moved by a reversible kernel for the density. If they have
    the density, a draw and where it moved can change places, and the sign of every difference between the two is a fair
    coin, whatever the density is. That test alone decides, and its probability of a false finding is a rigorous bound.
    """
    names = coordinate_names(evaluator.layout)
    frozen = np.flatnonzero(np.ptp(rows, axis=0) == 0)
    if frozen.size:
        return [Finding.FROZEN(coordinates=listed(frozen, names), num=len(rows))]
    drawn = evaluator.particles(rows, with_slopes=evaluator.with_slopes)
    scores, outside = drawn.slopes, int(np.sum(drawn.features == -np.inf))
    if outside > _OUTSIDE * len(rows):
        return [Finding.OUTSIDE(num=outside, total=len(rows))]
    axes = Axes.of(rows)
    extended, slopes = axes.extended(rows), None if scores is None else axes.extended_scores(scores)
    suspects = _everything(len(names), extended.shape[1]) if slopes is None else _suspects(extended, slopes, len(names))
    if not suspects:
        return []
    draw, move = stream.split(2)
    fresh = draws_inside(evaluator, np.asarray(evaluator.draw(draw, _NUM_CONFIRMED), float))
    moved = moved_draws(evaluator, fresh, axes, step_sizes(axes, rows, scores), move)
    confirmed = _confirmed(suspects, axes.extended(fresh.position), axes.extended(moved.position))
    return _named(confirmed, fresh.position, fresh.slopes, axes, names)


def _everything(dimension: int, num_extended: int) -> list[Suspect]:
    """Without gradients nothing says where to look."""
    pairs = [Suspect(i, j) for i in range(dimension) for j in range(i)] if dimension <= 5 else []
    return [*map(Suspect, range(num_extended)), *pairs]


def _suspects(extended: Matrix, slopes: Matrix, dimension: int) -> list[Suspect]:
    """Where Stein's identities seem to fail: `E[s_j] = 0`, and `E[g s_j] = -E[dg/dx_j]` for functions g of one x_i."""
    g = np.tanh(extended)
    alone = np.maximum(_standardized(slopes), _standardized(g * slopes + 1 - g**2))
    suspects = [Suspect(int(j)) for j in np.flatnonzero(~(alone < _quantile(_SUSPICIOUS / (2 * alone.size))))]
    if dimension > MOST_SQUARED:
        return suspects
    g, s = g[:, :dimension], slopes[:, :dimension]
    together = np.maximum(_standardized_products(g, s), _standardized_products(g**2 - np.mean(g**2, axis=0), s))
    np.fill_diagonal(together, 0.0)
    together = np.maximum(together, together.T)
    first, second = np.nonzero(np.triu(together > _quantile(_SUSPICIOUS / (2 * dimension**2))))
    order = np.argsort(-together[first, second])[:_MOST_PAIRS]
    return suspects + [Suspect(int(i), int(j)) for i, j in zip(first[order], second[order], strict=True)]


def _standardized(values: Matrix) -> np.ndarray:
    """Size of the means in standard errors; where all values are zero the mean is as it should be."""
    mean, error = np.mean(values, axis=0), np.std(values, axis=0) / len(values) ** 0.5
    return np.where(mean == 0, 0.0, np.abs(mean) / np.maximum(error, 1e-300))


def _standardized_products(first: Matrix, second: Matrix) -> Float[np.ndarray, "d d"]:
    """Size of the means of all products of two columns in standard errors."""
    num = len(first)
    mean, square = first.T @ second / num, (first**2).T @ second**2 / num
    return np.abs(mean) / np.sqrt(np.maximum(square - mean**2, 1e-300) / num)


def _quantile(probability: float) -> float:
    """What a standard normal number exceeds in size with that probability."""
    from scipy.special import ndtri

    return float(-ndtri(0.5 * probability))


def _confirmed(suspects: list[Suspect], before: Matrix, after: Matrix) -> list[Suspect]:
    """Suspects whose differences have signs that no fair coin gives, most certain first."""
    found = []
    for suspect in suspects:
        pairs = zip(suspect.measures(before), suspect.measures(after), strict=True)
        found += [(sign_probability(new - old), suspect) for old, new in pairs]
    certain = sorted(one for one in found if one[0] * len(found) < _CERTAIN)
    return list(dict.fromkeys(suspect for _, suspect in certain))


def _named(confirmed: list[Suspect], rows: Matrix, scores: Matrix | None, axes: Axes, names: list[str]) -> list[Remark]:
    """The findings, one of each kind. A pair says nothing new where one of its coordinates is wrong by itself."""
    alone = [suspect.first for suspect in confirmed if suspect.second is None]
    single = [index for index in alone if index < len(names)]
    pairs = [(suspect.first, suspect.second) for suspect in confirmed if suspect.second is not None]
    if not single and pairs:
        return [Finding.DEPENDENCE(first=names[pairs[0][0]], second=names[pairs[0][1]])]
    if not single:
        together = [f"a combination of {listed(axes.loaded(index), names)}" for index in alone[:1]]
        return [Finding.SAMPLER(coordinates=words, ratio=None) for words in together]
    if scores is None:
        return [Finding.SAMPLER(coordinates=listed(single, names), ratio=None)]
    findings = []
    jacobians = {j: _jacobian(rows[:, j], scores[:, j], axes, j) for j in single}
    for function in dict.fromkeys(filter(None, jacobians.values())):
        which = [j for j in single if jacobians[j] == function]
        findings.append(Finding.JACOBIAN(coordinates=listed(which, names), function=function))
    others = [j for j in single if jacobians[j] is None]
    if others:
        worst = others[0]
        ratio = _ratio(rows[:, worst] - axes.center[worst], scores[:, worst])
        findings.append(Finding.SAMPLER(coordinates=listed(others, names), ratio=ratio, worst=names[worst]))
    return findings


def _jacobian(x: Column, score: Column, axes: Axes, index: int) -> str | None:
    """The function whose Jacobian explains all that is off at a coordinate."""
    center, spread = axes.center[index], axes.spread[index]
    g = np.tanh((x - center) / spread)

    def off(s: Column) -> float:
        return float(np.max(_standardized(np.stack([s * spread, g * s * spread + 1 - g**2], axis=1))))

    if not off(score) > _DIFFERS:
        return None
    fits = {name: off(score + derivative(x)) for name, derivative in _JACOBIANS.items()}
    best = min(fits, key=lambda name: fits[name])
    return best if fits[best] < _FITS else None


def _ratio(x: Column, score: Column) -> float | None:
    """How many times as wide as the density the draws are, from the virial; None where they are not just wider."""
    virial = x * score
    mean, error = float(np.mean(virial)), float(np.std(virial)) / len(x) ** 0.5
    shift = float(_standardized(score[:, None])[0])
    return math.sqrt(-mean) if mean < 0 and abs(mean + 1) > 5 * error and shift < 5 else None


def coordinate_names(layout: Layout) -> list[str]:
    """What to call each number of a point: `x[2]`, or `theta[2]` where points are dictionaries."""
    tree = jax.tree.unflatten(layout.structure, range(len(layout.shapes)))
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    names = []
    for (path, _), shape in zip(paths, layout.shapes, strict=True):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        names += [name + "".join(f"[{i}]" for i in index) for index in np.ndindex(*shape)]
    return names


def listed(indices: Any, names: list[str], most: int = 3) -> str:
    """A few names, and how many more there are."""
    words = [names[int(i)] for i in indices]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
