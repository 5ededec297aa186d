"""The endpoints of a model's path, from what a user gives, and what looks wrong with them."""

import inspect
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._types import Point, PRNGKey
from .algorithms.checks import draw_points
from .densities import Density, DensityLike, as_density, evaluate
from .paths import AbstractPath, GeometricPath
from .tuning.reference import log_mass
from .verdict import Finding

_NUM_PROBED = 64


def model_path(
    base: Any, target: Any, log_prior: Any, log_likelihood: Any, sample_prior: Any, data: Any
) -> tuple[AbstractPath[Any], Any]:
    """The geometric path of the model, and its likelihood as a function of a point and data."""
    parts = {"log_prior": log_prior, "log_likelihood": log_likelihood, "sample_prior": sample_prior}
    given = [name for name, part in parts.items() if part is not None]
    if base is not None or target is not None:
        if base is None or target is None or given:
            given = [name for name, part in (("base", base), ("target", target)) if part is not None] + given
            raise ValueError(
                f"give either `base` and `target`, or `log_prior`, `log_likelihood` and `sample_prior`, got "
                f"{', '.join(given)}."
            )
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
    prior = Density(log_prior, sample_prior)
    likelihood = log_likelihood if data is not None else lambda x, _: log_likelihood(x)
    return path_given(prior, likelihood, data), likelihood


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some callables have no signature to look at
        pass
    return True


def path_given(prior: DensityLike, likelihood: Any, data: Any) -> AbstractPath[Any]:
    """From the prior to prior times likelihood; data are arrays of the target, not part of the compiled program."""
    return GeometricPath(
        prior, Density(jax.tree_util.Partial(_log_joint, prior, jax.tree_util.Partial(likelihood), data))
    )


def _log_joint(prior: DensityLike, likelihood: Any, data: Any, x: Point) -> Any:
    log_prior = evaluate(prior, x, "log_prior")
    log_likelihood = evaluate(Density(lambda x: likelihood(x, data)), x, "log_likelihood")
    # Outside the prior's support the likelihood need not be defined.
    return jnp.where(log_prior == -jnp.inf, -jnp.inf, log_prior + log_likelihood)


class Probe(NamedTuple):
    """The endpoints at some draws from the base, and what these show."""

    features: Any
    is_normalised: bool
    """False where the base is seen not to integrate to 1."""
    findings: list[Finding]


def probe(path: AbstractPath[Any], key: PRNGKey) -> Probe:
    """Whether the base is visibly not normalised, or the target a multiple of it."""
    points = draw_points(path, key, 1000)
    mass = log_mass(path.base, points, key=jax.random.fold_in(key, 1))
    is_normalised = mass is None or abs(mass[0]) <= max(5 * mass[1], 0.02)
    findings = []
    if mass is not None and not is_normalised:
        what = (
            f"the base (prior) does not integrate to 1 but to exp({mass[0]:.3f} +- {mass[1]:.3f}), judged by "
            f"importance sampling, and the log evidence is shifted by as much"
        )
        findings.append(Finding(what, "normalise its log density"))
    few = jax.tree.map(lambda leaf: leaf[:_NUM_PROBED], points)
    features = jax.jit(jax.vmap(lambda x: path.features(x)))(few)
    ratios = np.asarray(features.log_target - features.log_base)
    if np.isfinite(ratios).all():
        rounding = (
            8 * np.finfo(ratios.dtype).eps * max(np.abs(features.log_target).max(), np.abs(features.log_base).max())
        )
        if np.ptp(ratios) <= rounding:
            what = (
                f"the likelihood is constant, {np.exp(ratios[0]):.6g} at all of {_NUM_PROBED} draws from the prior, "
                f"and the posterior is the prior"
            )
            findings.append(Finding(what, "look whether the likelihood uses its argument"))
    return Probe(features, is_normalised, findings)
