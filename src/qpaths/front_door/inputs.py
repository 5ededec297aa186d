"""Checks of what a user gives, before anything runs."""

import re
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import Point, PointFaultError, Rows, Stream, quiet, sigmoid, to_host
from ..densities import DensityLike, as_text, called, evaluate, has_gradient, is_numpy
from ..paths import EndpointValues
from ..references import fit_reference
from ..remarks import Finding, Note, Remark
from ..rows import Evaluator, Faults, HostDensities, OneDensity, Particles, faults_of_call, rejecting
from ..stats import bridge
from .sampler import coordinate_names, listed, sampler_findings

_NUM_DRAWN = 512
"""Draws from the base at which it is looked at."""
_NUM_PROBED, _NUM_AGAIN = 64, 8
_MOST_OF_BASE = 0.5
"""Share of its own draws at which the base may fail."""
_NUM_PACED = 128
"""Points, as many as a compiled program takes at once, at which the time of an evaluation is measured."""
_FAR = 1e4
"""Ranges of the draws from the base, at which a target that has not changed is flat."""
_OVERLAP = 0.05
"""Mean acceptance, 0.5 for equal densities, below which a mass is not judged."""


def pace(evaluator: Evaluator, with_slopes: bool, stream: Stream) -> tuple[int, float]:
    """Evaluations, a gradient counted as two, and the seconds they took once the program was compiled."""
    positions = evaluator.draw(stream, _NUM_PACED)
    evaluator.particles(positions, with_slopes=with_slopes)
    begun = time.monotonic()
    evaluator.particles(positions, with_slopes=with_slopes)
    return (2 if with_slopes else 1) * _NUM_PACED, time.monotonic() - begun


class Probe(NamedTuple):
    """The endpoints at some draws from the base, and what these show."""

    features: Any
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
    """The program of a density as text, with its constants: the same for every trace of the same function."""
    program = jax.make_jaxpr(lambda x: evaluate(density, x, name))(point)
    constants = [np.asarray(constant).tobytes() for constant in program.consts if hasattr(constant, "dtype")]
    return f"{re.sub('0x[0-9a-f]+', '', str(program.jaxpr))} {constants}"


@quiet()
def probe(evaluator: Evaluator, stream: Stream) -> Probe:
    """What some draws from the base show: a mistake in the sampler or the base, or a likelihood that ignores a part.

    The order matters: a density that is not deterministic, and a sampler that always returns one point, are errors; a
    sampler that is wrong makes the base look unnormalized; and everything else is reported in addition.
    """
    draw, check, sampler = stream.split(3)
    positions = to_host(evaluator.draw(draw, _NUM_DRAWN))
    check_finite(evaluator, positions)
    few = positions[:_NUM_PROBED]
    features, faults = _values(evaluator, positions)
    check_deterministic(evaluator, few, features)
    prior = base_alone(evaluator)
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
    """The endpoints and their gradients at draws with mass; None without gradients, or with few such draws."""
    if not evaluator.path.is_pointwise or not all(map(has_gradient, (evaluator.path.base, evaluator.path.target))):
        return None
    at = to_host(evaluator.particles(rows, with_slopes=True))
    inside = at.features.log_target != -np.inf
    return jax.tree.map(lambda leaf: leaf[inside], at) if inside.sum() >= _NUM_AGAIN else None


def _flat(evaluator: Evaluator, at: Particles) -> list[int]:
    """Coordinates in which the target is the same everywhere, so that its integral is infinite."""
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
    """Log of the integral of the base and its standard error, where that is not 0 beyond doubt; otherwise None.

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


def _rounding(evaluator: Evaluator, *values: Any) -> float:
    """By how much differences of such values may be off."""
    return 8 * float(np.finfo(evaluator.layout.dtype).eps) * max(float(np.abs(value).max()) for value in values)


def _is_constant(evaluator: Evaluator, features: EndpointValues) -> bool:
    ratios = features.log_target - features.log_base
    if not np.isfinite(ratios).all():
        return False
    return bool(np.ptp(ratios) <= _rounding(evaluator, features.log_target, features.log_base))


def _ignored(evaluator: Evaluator, at: Particles) -> tuple[Remark, ...]:
    """A note where some coordinate changes neither the likelihood nor the base's density of any other.

    The second condition spares the hyperparameters of hierarchical models, which the likelihood does not see.
    """
    rounding = 16 * np.finfo(evaluator.layout.dtype).eps * np.abs(at.slopes.base)
    unseen = np.all(np.abs(at.slopes.target - at.slopes.base) <= rounding, axis=0)
    indices = [int(j) for j in np.flatnonzero(unseen)[:_NUM_AGAIN] if _changes_nothing(evaluator, at, int(j))]
    if not indices:
        return ()
    return (Note.IGNORED(coordinates=listed(indices, coordinate_names(evaluator.layout)), num=len(at.position)),)


def _changes_nothing(evaluator: Evaluator, at: Particles, index: int) -> bool:
    """Whether another value of a coordinate leaves the likelihood and the base's gradient in all others as they are."""
    rows = np.array(at.position)
    rows[:, index] = np.roll(rows[:, index], 1)
    new = to_host(evaluator.particles(rows, with_slopes=True))
    ratios, new_ratios = (one.features.log_target - one.features.log_base for one in (at, new))
    others = np.arange(rows.shape[1]) != index
    same = np.allclose(new.slopes.base[:, others], at.slopes.base[:, others], rtol=1e-4, atol=1e-6)
    return same and np.allclose(ratios, new_ratios, rtol=1e-4, atol=1e-5)
