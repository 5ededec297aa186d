"""Checks of what a user gives, before anything runs: draws from the base, its sampler, and the two log densities."""

import math
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import Point, PointFaultError, Rows, Stream, quiet, sigmoid, to_host
from ..densities import DensityLike, as_text, called, evaluate, has_gradient, is_numpy
from ..paths import EndpointValues
from ..references import fit_reference
from ..remarks import Finding, Note, Remark
from ..rows import Evaluator, Faults, HostDensities, Layout, OneDensity, Particles, faults_of_call, rejecting
from ..stats import bridge
from .exchange import MOST_SQUARED, Axes, Column, Matrix, draws_inside, moved_draws, sign_probability, step_sizes

_NUM_DRAWN = 512
"""Draws from the base at which it is looked at."""
_NUM_PROBED, _NUM_AGAIN = 64, 8
_MOST_OF_BASE = 0.5
"""Share of its own draws at which the base may fail."""
_NUM_PACED, _NUM_PACED_ON_HOST = 128, 16
"""Points at which the time of an evaluation is measured: as many as a compiled program takes at once, or fewer."""
_FEW_VALUES = 0.1
"""Share of different values among the draws of a number, below which it is not continuous."""
_FAR = 1e4
"""Ranges of the draws from the base, at which a target that has not changed is flat."""
_OVERLAP = 0.05
"""Mean acceptance, 0.5 for equal densities, below which a mass is not judged."""
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


def pace(evaluator: Evaluator, with_slopes: bool, stream: Stream) -> tuple[int, float]:
    """Return evaluations, a gradient counted as two, and the seconds they took once the program was compiled."""
    is_host = evaluator.path.is_pointwise and is_numpy(evaluator.path.target)  # which may take seconds each
    num = _NUM_PACED_ON_HOST if is_host else _NUM_PACED
    positions = evaluator.draw(stream, num)
    # The first call compiles or sets up something.
    evaluator.particles(positions[:1] if is_host else positions, with_slopes=with_slopes)
    begun = time.monotonic()
    evaluator.particles(positions, with_slopes=with_slopes)
    return (2 if with_slopes else 1) * num, time.monotonic() - begun


class Probe(NamedTuple):
    """The endpoints at some draws from the base, and what these show."""

    features: EndpointValues
    is_normalized: bool
    """False where the base is seen not to be the density of its draws, or not to integrate to 1."""
    notes: tuple[Remark, ...]
    findings: list[Remark]
    faults: float = 0.0
    """Share of the draws from the base at which a density fails."""


def check_deterministic(evaluator: Evaluator, positions: Rows, features: EndpointValues) -> None:
    """Raise where a density does not always give the same number at the same point.

    A NumPy density is called again, and so is one that calls back to Python. Other compiled programs give the same
    numbers at every call. So a JAX density is traced twice: random numbers that do not come from a key are constants,
    and other ones in the second program.
    """
    ends = {"base": evaluator.path.base, "target": evaluator.path.target}
    again = None
    for name, density in ends.items():
        if is_numpy(density) or not has_gradient(density):
            again = to_host(evaluator.values(positions[:_NUM_AGAIN])) if again is None else again
            values, new = (getattr(part, f"log_{name}")[:_NUM_AGAIN] for part in (features, again))
            if not np.array_equal(values, new, equal_nan=True):
                where = int(np.argmax(values != new))
                point = evaluator.layout.points(positions[where])
                raise ValueError(
                    f"`{called(density, name)}` is not deterministic: at the point {as_text(point)} it gave "
                    f"{values[where]}, and then {new[where]}. A log density must always give the same number at the "
                    f"same point."
                )
        if is_numpy(density):
            continue
        if len({_trace(density, name, evaluator.layout.points(positions[0])) for _ in range(2)}) > 1:
            raise ValueError(
                f"`{called(density, name)}` is not deterministic: JAX traced it twice, and its constants differ. It "
                f"probably calls NumPy's random numbers. A log density must always give the same number at the same "
                f"point."
            )


def _trace(density: DensityLike, name: str, point: Point) -> str:
    """Return the program of a density as text, with its constants: the same for every trace of the same function."""
    program = jax.make_jaxpr(lambda x: evaluate(density, x, name))(point)
    constants = [np.asarray(constant).tobytes() for constant in program.consts if hasattr(constant, "dtype")]
    return f"{re.sub('0x[0-9a-f]+', '', str(program.jaxpr))} {constants}"


@quiet()
def probe(evaluator: Evaluator, stream: Stream, is_continuous: bool = True) -> Probe:
    """Look for mistakes in the sampler and the base, and for a likelihood that ignores a part, at draws from the base.

    The order matters: a density that is not deterministic, and a sampler that always returns one point, are errors; a
    sampler that is wrong makes the base look unnormalized; and everything else is reported in addition. A kernel of the
    user's own may move discrete numbers: then the space is not known to be continuous.
    """
    draw, check, sampler = stream.split(3)
    positions = to_host(evaluator.draw(draw, _NUM_DRAWN))
    check_finite(evaluator, positions)
    few = positions[:_NUM_PROBED]
    features, faults = _values(evaluator, positions)
    check_deterministic(evaluator, few, features)
    prior = base_alone(evaluator)
    different = np.array([len(np.unique(column)) for column in positions.T])
    few_values = np.flatnonzero((different > 1) & (different < _FEW_VALUES * len(positions)))
    if few_values.size and is_continuous:
        names = listed(few_values, coordinate_names(evaluator.layout))
        findings = [Finding.DISCRETE(coordinates=names, num=int(different[few_values[0]]), total=len(positions))]
    else:
        findings = sampler_findings(prior, positions, sampler)
    mass = None if findings else log_mass(prior, positions, check)
    if mass is not None:
        findings.append(Finding.NOT_NORMALIZED(log_mass=mass[0], error=mass[1]))
    is_normalized = not findings
    if _is_constant(evaluator, features):
        value = float(np.exp(features.log_target[0] - features.log_base[0]))
        return Probe(features, is_normalized, (), [*findings, Finding.CONSTANT(value=value, num=_NUM_PROBED)], faults)
    at = _with_slopes(evaluator, few)
    if at is None:
        return Probe(features, is_normalized, (), findings, faults)
    flat = _flat(evaluator, at)
    if flat:
        findings.append(Finding.FLAT(coordinates=listed(flat, coordinate_names(evaluator.layout))))
    return Probe(features, is_normalized, _ignored(evaluator, at), findings, faults)


def _values(evaluator: Evaluator, positions: Rows) -> tuple[EndpointValues, float]:
    """Return the endpoints at the first draws from the base, and the share of all draws at which a density fails.

    All draws are evaluated only if some of the first fail. A density that fails at each of them is an error.
    """
    few, faults = positions[:_NUM_PROBED], faults_of_call()
    if faults is None:
        return to_host(evaluator.values(few)), 0.0
    with rejecting(Faults()) as own:
        features = to_host(evaluator.values(few))
        if not own.num:
            return features, 0.0
        rest = evaluator.values(positions[_NUM_PROBED:])
    faults.add(own)
    values = np.concatenate([features.log_target, to_host(rest).log_target])
    if (values == -np.inf).all() or np.mean(np.asarray(features.log_base) == -np.inf) > _MOST_OF_BASE:
        with rejecting(None):
            raise_first(evaluator, own)
    return features, own.num / len(positions)


def raise_first(evaluator: Evaluator, faults: Faults) -> None:
    """Raise what was found at the first point at which a density failed."""
    assert faults.first is not None
    row, name, found = faults.first
    evaluator.values(row[None])  # raises what the function raises
    point = evaluator.layout.points(row)
    raise PointFaultError(
        f"`{name}` is {found} at the draw {as_text(point)} from the prior, and it fails at all others or nearly so. A "
        f"log density must be a number, or -inf where there is no mass; mend it at that point.",
        point,
    )


def check_finite(evaluator: Evaluator, positions: Rows) -> None:
    """Raise where draws from the base are infinite."""
    beyond = ~np.isfinite(positions)
    if not beyond.any():
        return
    worst = int(np.argmax(beyond.sum(axis=0)))
    name, num = coordinate_names(evaluator.layout)[worst], int(beyond[:, worst].sum())
    bits = 8 * np.dtype(evaluator.layout.dtype).itemsize
    larger = "use 64 bits (`jax.config.update('jax_enable_x64', True)`), " if bits < 64 else ""
    raise ValueError(
        f"`{name}`, as a coordinate without bounds, is infinite in {num} of {len(positions)} draws from the prior: "
        f"they are too large for {bits} bits, or round to a bound of the support. To avoid that, {larger}give a prior "
        f"with less mass there, or write the model with the logarithm of the variable."
    )


def _with_slopes(evaluator: Evaluator, rows: Rows) -> Particles | None:
    """Return the endpoints and their gradients at draws with mass; None without gradients, or with few such draws."""
    if not evaluator.path.is_pointwise or not all(map(has_gradient, (evaluator.path.base, evaluator.path.target))):
        return None
    at = to_host(evaluator.particles(rows, with_slopes=True))
    inside = at.features.log_target != -np.inf
    return jax.tree.map(lambda leaf: leaf[inside], at) if inside.sum() >= _NUM_AGAIN else None


def _flat(evaluator: Evaluator, at: Particles) -> list[int]:
    """Find coordinates in which the target is the same everywhere, so that its integral is infinite."""
    unseen = np.flatnonzero(np.all(at.slopes.target == 0, axis=0))[:_NUM_AGAIN]
    values = at.features.log_target[:_NUM_AGAIN]
    found = []
    for j in map(int, unseen):
        far = _FAR * max(np.ptp(at.position[:, j]), 1e-6)
        moved = np.concatenate([at.position[:_NUM_AGAIN], at.position[:_NUM_AGAIN]])
        moved[:, j] += np.repeat([-far, far], _NUM_AGAIN)
        new = to_host(evaluator.values(moved)).log_target
        if np.allclose(new, np.tile(values, 2), rtol=0, atol=_rounding(evaluator, values)):
            found.append(j)
    return found


def base_alone(evaluator: Evaluator) -> OneDensity:
    """Return the evaluator of the base of a path, which leaves the target alone."""
    base, with_slopes = evaluator.path.base, has_gradient(evaluator.path.base)
    return OneDensity(base, "base", HostDensities(evaluator.layout, with_slopes), with_slopes)


def log_mass(evaluator: OneDensity, positions: Rows, stream: Stream) -> tuple[float, float] | None:
    """Return the log of the integral of the base and its standard error, if that is not 0 beyond doubt; otherwise None.

    By the acceptance ratio of Bennett (1976) between fresh draws from the base and from a distribution fitted to
    `positions`: the estimate that both sides agree on. Importance sampling alone, from one side, took hierarchical
    priors for unnormalized ones.
    """
    draw, propose = stream.split(2)
    try:
        fitted = fit_reference(positions).fitted
    except np.linalg.LinAlgError:
        return None
    if fitted is None:
        return None
    rows = to_host(evaluator.draw(draw, len(positions))), fitted.draw(propose, len(positions))
    drawn, proposed = (evaluator.values(row) - to_host(fitted.log_prob(row)) for row in rows)
    value = float(bridge(proposed[None], -drawn[None])[0])
    shares = sigmoid(proposed - value), sigmoid(value - drawn)
    error = float(sum(np.var(share) / np.mean(share) ** 2 / share.size for share in shares)) ** 0.5
    overlap = min(float(np.mean(share)) for share in shares)
    return (value, error) if overlap > _OVERLAP and abs(value) > max(5 * error, 0.02) else None


def _rounding(evaluator: Evaluator, *values: np.ndarray) -> float:
    """Return by how much differences of such values may be off."""
    return 8 * float(np.finfo(evaluator.layout.dtype).eps) * max(float(np.abs(value).max()) for value in values)


def _is_constant(evaluator: Evaluator, features: EndpointValues) -> bool:
    ratios = features.log_target - features.log_base
    if not np.isfinite(ratios).all():
        return False
    return bool(np.ptp(ratios) <= _rounding(evaluator, features.log_target, features.log_base))


def _ignored(evaluator: Evaluator, at: Particles) -> tuple[Remark, ...]:
    """Return a note if some coordinate changes neither the likelihood nor the base's density of any other.

    The second condition spares the hyperparameters of hierarchical models, which the likelihood does not see.
    """
    rounding = 16 * np.finfo(evaluator.layout.dtype).eps * np.abs(at.slopes.base)
    unseen = np.all(np.abs(at.slopes.target - at.slopes.base) <= rounding, axis=0)
    indices = [int(j) for j in np.flatnonzero(unseen)[:_NUM_AGAIN] if _changes_nothing(evaluator, at, int(j))]
    if not indices:
        return ()
    return (Note.IGNORED(coordinates=listed(indices, coordinate_names(evaluator.layout)), num=len(at.position)),)


def _changes_nothing(evaluator: Evaluator, at: Particles, index: int) -> bool:
    """Tell if another value of a coordinate leaves the likelihood and the base's gradient in all others as they are."""
    rows = np.array(at.position)
    rows[:, index] = np.roll(rows[:, index], 1)
    new = to_host(evaluator.particles(rows, with_slopes=True))
    ratios, new_ratios = (one.features.log_target - one.features.log_base for one in (at, new))
    others = np.arange(rows.shape[1]) != index
    same = np.allclose(new.slopes.base[:, others], at.slopes.base[:, others], rtol=1e-4, atol=1e-6)
    return same and np.allclose(ratios, new_ratios, rtol=1e-4, atol=1e-5)


class Suspect(NamedTuple):
    """A coordinate or combination, or a pair of coordinates, whose draws may not fit the density."""

    first: int
    second: int | None = None

    def measures(self, extended: Matrix) -> list[Column]:
        """Return what is compared between draws and moved draws."""
        if self.second is None:
            return [extended[:, self.first], np.abs(extended[:, self.first])]
        one, other = np.tanh(extended[:, self.first]), np.tanh(extended[:, self.second])
        return [one * other, one**2 * other, one * other**2, one**2 * other**2]


@quiet()
def sampler_findings(evaluator: OneDensity, rows: Matrix, stream: Stream) -> list[Remark]:
    """Return what shows that draws from the base, of which `rows` are some, do not have its density.

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
    """Return all coordinates and pairs: without gradients nothing says which to look at."""
    pairs = [Suspect(i, j) for i in range(dimension) for j in range(i)] if dimension <= 5 else []
    return [*map(Suspect, range(num_extended)), *pairs]


def _suspects(extended: Matrix, slopes: Matrix, dimension: int) -> list[Suspect]:
    """Find failures of Stein's identities: `E[s_j] = 0`, and `E[g s_j] = -E[dg/dx_j]` for functions g of one x_i."""
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
    """Return the size of the means in standard errors; 0 if all values are zero, as they should be."""
    mean, error = np.mean(values, axis=0), np.std(values, axis=0) / len(values) ** 0.5
    return np.where(mean == 0, 0.0, np.abs(mean) / np.maximum(error, 1e-300))


def _standardized_products(first: Matrix, second: Matrix) -> Float[np.ndarray, "d d"]:
    """Return the size of the means of all products of two columns in standard errors."""
    num = len(first)
    mean, square = first.T @ second / num, (first**2).T @ second**2 / num
    return np.abs(mean) / np.sqrt(np.maximum(square - mean**2, 1e-300) / num)


def _quantile(probability: float) -> float:
    """Return what a standard normal number exceeds in size with that probability."""
    from scipy.special import ndtri

    return float(-ndtri(0.5 * probability))


def _confirmed(suspects: list[Suspect], before: Matrix, after: Matrix) -> list[Suspect]:
    """Return suspects whose differences have signs that no fair coin gives, most certain first."""
    found = []
    for suspect in suspects:
        pairs = zip(suspect.measures(before), suspect.measures(after), strict=True)
        found += [(sign_probability(new - old), suspect) for old, new in pairs]
    certain = sorted(one for one in found if one[0] * len(found) < _CERTAIN)
    return list(dict.fromkeys(suspect for _, suspect in certain))


def _named(confirmed: list[Suspect], rows: Matrix, scores: Matrix | None, axes: Axes, names: list[str]) -> list[Remark]:
    """Return the findings, one of each kind. A pair says nothing new if one of its coordinates is wrong by itself."""
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
    """Return the function whose Jacobian explains all that is off at a coordinate."""
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
    """Return how many times as wide as the density the draws are, from the virial; None if they are not just wider."""
    virial = x * score
    mean, error = float(np.mean(virial)), float(np.std(virial)) / len(x) ** 0.5
    shift = float(_standardized(score[:, None])[0])
    return math.sqrt(-mean) if mean < 0 and abs(mean + 1) > 5 * error and shift < 5 else None


def coordinate_names(layout: Layout) -> list[str]:
    """Name each number of a point: `x[2]`, or `theta[2]` if points are dictionaries."""
    tree = jax.tree.unflatten(layout.structure, range(len(layout.shapes)))
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    names = []
    for (path, _), shape in zip(paths, layout.shapes, strict=True):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "x"
        names += [name + "".join(f"[{i}]" for i in index) for index in np.ndindex(*shape)]
    return names


def listed(indices: Sequence[int] | np.ndarray, names: list[str], most: int = 3) -> str:
    """Return a few names, and how many more there are."""
    words = [names[int(i)] for i in indices]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")
