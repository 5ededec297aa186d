"""The endpoints of a model's path, from what a user gives, and what looks wrong with them."""

import inspect
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._types import Point, Rows
from .arrays import quiet, to_host
from .densities import Density, DensityLike, as_density, as_pytree, check_backend, evaluate, is_numpy
from .evaluation import AbstractEvaluator
from .paths import AbstractPath, GeometricPath
from .paths.base import EndpointValues
from .tuning.reference import log_mass
from .verdict import Finding

_NUM_DRAWN = 512
"""Draws from the base at which it is looked at."""
_NUM_PROBED, _NUM_AGAIN = 64, 8


def model_path(
    base: Any, target: Any, log_prior: Any, log_likelihood: Any, sample_prior: Any, data: Any, backend: str
) -> tuple[AbstractPath[Any], Any]:
    """The geometric path of the model, and its likelihood as a function of a point and data."""
    check_backend(backend)
    parts = {"log_prior": log_prior, "log_likelihood": log_likelihood, "sample_prior": sample_prior}
    given = [name for name, part in parts.items() if part is not None]
    if base is not None or target is not None:
        if base is None or target is None or given:
            given = [name for name, part in (("base", base), ("target", target)) if part is not None] + given
            raise ValueError(
                f"give either `base` and `target`, or `log_prior`, `log_likelihood` and `sample_prior`, got "
                f"{', '.join(given)}."
            )
        if backend == "numpy":
            base, target = (_numpy_density(end) for end in (base, target))
        return GeometricPath(as_density(base, "base"), as_density(target, "target")), None
    missing = [name for name in parts if name not in given]
    if missing:
        raise ValueError(
            f"`{missing[0]}` must be given, got {', '.join(given) or 'nothing'}: see `help(qpaths.evidence)`."
        )
    if data is not None and not _takes_two(log_likelihood):
        raise TypeError(
            "`log_likelihood` must take a point and the data, since `data` is given: log_likelihood(x, data)."
        )
    prior = Density(log_prior, sample_prior, backend=backend)
    return path_given(prior, log_likelihood, data), log_likelihood


def _numpy_density(end: Any) -> Any:
    """A function becomes a NumPy density; a density stays what it is."""
    return end if hasattr(end, "log_prob") or not callable(end) else Density(end, backend="numpy")


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some callables have no signature to look at
        pass
    return True


def path_given(prior: Density, likelihood: Any, data: Any) -> AbstractPath[Any]:
    """From the prior to prior times likelihood; data are arrays of the target, not part of the compiled program."""
    likelihood = as_pytree(likelihood)
    arguments = (prior, likelihood) if data is None else (prior, likelihood, data)
    function = _log_joint if prior.backend == "jax" else _numpy_log_joint
    return GeometricPath(prior, Density(jax.tree_util.Partial(function, *arguments), backend=prior.backend))


def _log_joint(prior: DensityLike, likelihood: Any, *data_and_x: Any) -> Any:
    *data, x = data_and_x
    log_prior = evaluate(prior, x, "log_prior")
    log_likelihood = evaluate(Density(lambda x: likelihood(x, *data)), x, "log_likelihood")
    # Outside the prior's support the likelihood need not be defined.
    return jnp.where(log_prior == -jnp.inf, -jnp.inf, log_prior + log_likelihood)


def _numpy_log_joint(prior: DensityLike, likelihood: Any, *data_and_x: Any) -> Any:
    *data, x = data_and_x
    log_prior = prior.log_prob(x)
    return -np.inf if log_prior == -np.inf else log_prior + likelihood(x, *data)


class Probe(NamedTuple):
    """The endpoints at some draws from the base, and what these show."""

    features: Any
    is_normalised: bool
    """False where the base is seen not to integrate to 1."""
    findings: list[Finding]


def check_deterministic(evaluator: AbstractEvaluator, positions: Rows, features: EndpointValues) -> None:
    """Raise where a density does not always give the same number at the same point.

    A NumPy density is called again. Of a JAX density each compiled program gives the same numbers for ever, so it is
    traced twice: random numbers that do not come from a key are constants, and other ones in the second program.
    """
    ends = {"base": evaluator.path.base, "target": evaluator.path.target}
    again = None
    for name, density in ends.items():
        if is_numpy(density):
            again = to_host(evaluator.values(positions[:_NUM_AGAIN])) if again is None else again
            values, new = (getattr(part, f"log_{name}")[:_NUM_AGAIN] for part in (features, again))
            if not np.array_equal(values, new, equal_nan=True):
                where = int(np.argmax(values != new))
                point = evaluator.layout.points(positions[where])
                raise ValueError(
                    f"`{name}.log_prob` is not deterministic: at the point {point} it gave {values[where]}, and then "
                    f"{new[where]}. A log density must always give the same number at the same point."
                )
        elif len({_trace(density, name, evaluator.layout.points(positions[0])) for _ in range(2)}) > 1:
            raise ValueError(
                f"`{name}.log_prob` is not deterministic: JAX traced it twice, and its constants differ. It probably "
                f"calls NumPy's random numbers. A log density must always give the same number at the same point."
            )


def _trace(density: DensityLike, name: str, point: Point) -> str:
    """The program of a density as text, with its constants: the same for every trace of the same function."""
    program = jax.make_jaxpr(lambda x: evaluate(density, x, name))(point)
    constants = [np.asarray(constant).tobytes() for constant in program.consts if hasattr(constant, "dtype")]
    return f"{re.sub('0x[0-9a-f]+', '', str(program.jaxpr))} {constants}"


@quiet()
def probe(evaluator: AbstractEvaluator, stream: Any) -> Probe:
    """Whether the base is visibly not normalised, or the target a multiple of it."""
    draw, check = stream.split(2)
    positions = evaluator.draw(draw, _NUM_DRAWN)
    mass = log_mass(evaluator, to_host(positions), stream=check)
    is_normalised = mass is None or abs(mass[0]) <= max(5 * mass[1], 0.02)
    findings = []
    if mass is not None and not is_normalised:
        what = (
            f"the base (prior) does not integrate to 1 but to exp({mass[0]:.3f} +- {mass[1]:.3f}), judged by "
            f"importance sampling, and the log evidence is shifted by as much"
        )
        findings.append(Finding(what, "normalise its log density"))
    few = positions[:_NUM_PROBED]
    features = to_host(evaluator.values(few))
    check_deterministic(evaluator, few, features)
    ratios = features.log_target - features.log_base
    if np.isfinite(ratios).all():
        rounding = (
            8
            * np.finfo(evaluator.layout.dtype).eps
            * max(np.abs(features.log_target).max(), np.abs(features.log_base).max())
        )
        if np.ptp(ratios) <= rounding:
            what = (
                f"the likelihood is constant, {np.exp(ratios[0]):.6g} at all of {_NUM_PROBED} draws from the prior, "
                f"and the posterior is the prior"
            )
            findings.append(Finding(what, "look whether the likelihood uses its argument"))
    return Probe(features, is_normalised, findings)
