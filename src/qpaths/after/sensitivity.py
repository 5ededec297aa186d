"""Other priors: draws reweighted to one, and curves over a hyperparameter or a power of the prior or the likelihood."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..adapters import Prior, from_prior
from ..core import Cost, PRNGKey, QpathsTypeError
from ..densities import evaluate, sampler_of
from ..remarks import AfterNote, Finding, Remark
from ..results import Result
from ..rows import stream_for
from .carry import Carried, Ensemble, carry, log_ratio
from .given import Given
from .stations import Stations, Visit, check_jax, walk
from .update import arrived

_MOST_SHAPE, _FEWEST, _NUM_LOOKED = 0.7, 100, 256
"""A Pareto index and an effective sample size beyond which weights are not to be trusted, and draws of a new prior that
are looked at."""


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """A log evidence and posterior means as a curve, from `sensitivity`.

    Attributes:
        name: What changes.
        values: Its values.
        log_evidence: At each value.
        log_evidence_se: Their standard errors.
        change: The log evidence less that of the result; its noise is less, since the draws are the same.
        change_se: The standard errors of these.
        mean: Posterior mean of each number of the variables, at each value.
        mean_se: Their standard errors.
        pareto_shape: Pareto index of the weights at each value; above 0.7 the numbers there are doubtful.
        findings: What looks unreliable, by the number of the value.
        num_moves: How often draws were carried on because weights did not reach.
        num_evaluations: What that cost.

    Examples:
        >>> import jax, qpaths as qp
        >>> norm = jax.scipy.stats.norm.logpdf
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p: norm(0.5, p["mu"])}
        >>> result = qp.evidence(**model, budget=20_000, key=jax.random.key(0))
        >>> curve = qp.sensitivity(result, {"mu.scale": [0.5, 1.0, 2.0]}, key=jax.random.key(1))
        >>> exact = norm(0.5, 0.0, (1 + curve.values**2) ** 0.5)
        >>> bool((abs(curve.log_evidence - exact) < 5 * curve.log_evidence_se).all())
        True
    """

    name: str
    values: Any
    log_evidence: np.ndarray
    log_evidence_se: np.ndarray
    change: np.ndarray
    change_se: np.ndarray
    mean: dict[str, np.ndarray]
    mean_se: dict[str, np.ndarray]
    pareto_shape: np.ndarray
    findings: dict[int, tuple[Remark, ...]]
    num_moves: int
    num_evaluations: Cost

    @property
    def doubtful(self) -> list[int]:
        """Return the numbers of the values at which the answers are not to be trusted."""
        return sorted({*self.findings, *np.flatnonzero(self.pareto_shape > _MOST_SHAPE).tolist()})

    def __str__(self) -> str:
        lines = [f"{self.name:>12}  {'log evidence':>12} {'se':>8} {'change':>8} {'se':>8} {'index':>6}"]
        lines += [
            f"{self.values[i]!s:>12.12}  {self.log_evidence[i]:12.3f} {self.log_evidence_se[i]:8.3f} "
            f"{self.change[i]:8.3f} {self.change_se[i]:8.3f} {self.pareto_shape[i]:6.2f}"
            for i in range(len(self.log_evidence))
        ]
        return "\n".join(lines)


def sensitivity(result: Result, hyperparameter: Mapping[str, Any], *, key: PRNGKey) -> Sensitivity:
    """The log evidence and the posterior means as a curve over a hyperparameter.

    Args:
        result: Of `evidence` with a `prior` of distributions by name.
        hyperparameter: A name with values. `{"tau.scale": values}` changes a parameter of the prior of `tau`, and
            `{"tau": values}` its scale; the values may also be distributions. `{"prior": powers}` and
            `{"likelihood": powers}` raise the prior or the likelihood to powers (Kallioinen et al., 2024).
        key: For the moves.

    The draws of the result are reweighted to the values next to its own. Where weights do not reach, the draws are
    carried to the last value that they reached, along a path from prior to prior, and moved there. The spread of the
    islands is the standard error.

    Returns:
        A `Sensitivity`; `qpaths.plotting.plot_sensitivity` draws it. With a power of the prior, which is not
        normalized, `log_evidence` is the log of the integral of power times likelihood.

    Examples:
        >>> import jax, qpaths as qp
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p: -0.5 * p["mu"] ** 2}
        >>> result = qp.evidence(**model, budget=20_000, key=jax.random.key(0))
        >>> curve = qp.sensitivity(result, {"likelihood": [0.5, 1.0, 2.0]}, key=jax.random.key(1))
        >>> bool(abs(curve.log_evidence[0] + 0.5 * jax.numpy.log(1.5)) < 5 * curve.log_evidence_se[0])
        True
    """
    given: Given = result.known
    check_jax(given, "sensitivity")
    if not isinstance(hyperparameter, Mapping) or len(hyperparameter) != 1:
        raise QpathsTypeError(f"`hyperparameter` must be one name with values, {{'tau': ...}}, got {hyperparameter!r}.")
    name, values = next(iter(hyperparameter.items()))
    if np.ndim(values) != 1 and not isinstance(values, list | tuple):
        raise ValueError(f"the values of `{name}` must be a list, or an array of one axis, got {values!r}.")
    stations, order = _stations(given, name, values)
    first, up, down = stream_for(key, given.path, pilots=True).split(3)
    start = Ensemble.of(given, result, first)
    visits: dict[int, Any] = {}

    def observe(number: int, visit: Visit) -> None:
        change = log_ratio(start, visit.ensemble)
        visits[number] = change, visit.ensemble.means(given.columns(visit.ensemble.flat)), visit

    ways = [walk(stations, start, numbers, stream, observe) for numbers, stream in zip(order, (up, down), strict=True)]
    changes, changes_se = np.array([visits[i][0] for i in range(len(values))]).T
    names = visits[0][1]
    shapes = np.array([visits[i][2].shape for i in range(len(values))])
    findings = {i: visits[i][2].findings for i in range(len(values)) if visits[i][2].findings}
    curve = Sensitivity(
        name,
        np.asarray(values) if not _are_distributions(values) else tuple(values),
        float(result.log_evidence) + changes,
        np.hypot(float(result.log_evidence_se), changes_se),
        changes,
        changes_se,
        {column: np.array([visits[i][1][column][0] for i in range(len(values))]) for column in names},
        {column: np.array([visits[i][1][column][1] for i in range(len(values))]) for column in names},
        shapes,
        findings,
        sum(num for _, num, _ in ways),
        ways[0][2] + ways[1][2],
    )
    if bad := curve.doubtful:
        warnings.warn(f"sensitivity: {len(bad)} of {len(values)} values are doubtful; see `doubtful`.", stacklevel=2)
    return curve


def _stations(given: Given, name: str, values: Any) -> tuple[Stations, tuple[list[int], list[int]]]:
    """Return the densities, and their numbers in order away from the present value, upwards and downwards."""
    if name in ("prior", "likelihood"):
        powers = _numbers(name, values)
        if (powers < 0).any():
            raise ValueError(f"powers of the {name} must not be negative, got {powers.min():g}.")
        function = _of_likelihood(given) if name == "likelihood" else _of_prior(given)
        return Stations(given, lambda x, power: (power - 1) * function(x), powers), _away(powers, 1.0)
    parts = _parts(given, "sensitivity")
    variable, _, field = name.partition(".")
    if variable not in parts:
        raise ValueError(f"there is no hyperparameter `{name}`: the prior has {', '.join(parts)}.")
    old = _log_prior(given, parts)
    if _are_distributions(values):
        others = [_log_prior(given, parts | {variable: part}) for part in values]
        factors = [lambda x, one=one: one(x) - old(x) for one in others]
        numbers = np.arange(len(values))
        return Stations(given, lambda x, k: jax.lax.switch(k, factors, x), numbers), (numbers.tolist(), [])
    field, part = field or "scale", parts[variable]
    present = getattr(part, field, None)
    if present is None or np.ndim(present) or not isinstance(_with(part, field, present), type(part)):
        raise ValueError(
            f"the prior of `{variable}` has no number `{field}`: name a parameter, `{variable}.loc` perhaps, or give "
            f" distributions as values."
        )
    numbers = _numbers(name, values)

    def factor(x: Any, value: Any) -> Any:
        return _log_prior(given, parts | {variable: _with(part, field, value)})(x) - old(x)

    return Stations(given, factor, numbers), _away(numbers, float(present))


def _are_distributions(values: Any) -> bool:
    return not all(isinstance(value, int | float | np.generic) or hasattr(value, "dtype") for value in values)


def _numbers(name: str, values: Any) -> np.ndarray:
    numbers = np.asarray(values, float)
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(f"the values of `{name}` must be finite numbers, at least one, got {values!r}.")
    return numbers


def _away(values: np.ndarray, present: float) -> tuple[list[int], list[int]]:
    order = np.argsort(values, kind="stable")
    up = [int(i) for i in order if values[i] >= present]
    return up, [int(i) for i in order[::-1] if values[i] < present]


def _parts(given: Given, what: str) -> dict[str, Any]:
    """Return the distributions of the prior by name."""
    parts = None if given.model is None else given.model.parts
    if parts is None:
        raise QpathsTypeError(
            f"`{what}` needs a prior of distributions by name: give `evidence(prior=..., log_likelihood=...)`."
        )
    return dict(parts)


def _with(part: Any, field: str, value: Any) -> Any:
    """Return a distribution with another parameter."""
    if hasattr(part, "arg_constraints"):  # NumPyro's; it may keep what it computed from the old one
        return type(part)(**{name: getattr(part, name) for name in part.arg_constraints} | {field: value})
    return dataclasses.replace(part, **{field: value}) if dataclasses.is_dataclass(part) else None  # type: ignore[type-var]


def _log_prior(given: Given, parts: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the log density of a prior in the units of its variables, at an unconstrained point of the model.

    In these units ratios of two priors need no Jacobian, whatever their own coordinates are.
    """
    assert given.model is not None
    own, constrain = Prior(parts), given.model.constrain
    return lambda x: own.log_prob_of(constrain(x))


def _of_prior(given: Given) -> Callable[[Any], Any]:
    return _log_prior(given, _parts(given, "sensitivity"))


def _of_likelihood(given: Given) -> Callable[[Any], Any]:
    return lambda x: evaluate(given.target, x, "target") - evaluate(given.base, x, "base")


def reweighted(given: Given, result: Result, prior: Mapping[str, Any], key: PRNGKey | None) -> Result:
    """Return the result with another prior: by weights, or along a path with a key where these do not reach."""
    check_jax(given, "reweight")
    parts, model = _parts(given, "reweight"), given.model
    assert model is not None
    new = from_prior(prior, lambda p: 0.0)
    if new.variables != model.variables:
        raise ValueError(f"the new prior must have the variables {model.variables}, got {new.variables}.")
    old, log_new = _log_prior(given, parts), _log_prior(given, dict(prior))
    draws = jax.vmap(sampler_of(new.prior, "prior"))(jax.random.split(jax.random.key(0), _NUM_LOOKED))
    named = {name: leaf for name, leaf in new.named(draws).items() if name in model.variables}
    outside = ~np.isfinite(np.asarray(jax.vmap(lambda p: Prior(parts).log_prob_of(p))(named)))
    if outside.any():
        raise ValueError(
            f"the new prior puts {outside.mean():.0%} of its mass where the old one has none, and no draw is there: "
            f"call `evidence` with the new prior."
        )
    stations = Stations(given, lambda x, _: log_new(x) - old(x), np.zeros(1))
    first, on = stream_for(jax.random.key(0) if key is None else key, given.path, pilots=True).split(2)
    target = stations.density(0)

    def log_prior(x: Any) -> Any:
        return evaluate(given.base, x, "base") + log_new(x) - old(x)

    draw = sampler_of(new.prior, "prior")

    def sample(key: Any) -> Any:
        named = new.constrain(draw(key))
        return model.unconstrain({name: named[name] for name in model.variables})

    base = type(model.prior)(log_prior, sample)
    own = dataclasses.replace(model, prior=base, parts=dict(prior))
    moved = dataclasses.replace(given.moved_to(target, model=own), path=type(given.path)(base, target))
    before = Ensemble.of(given, result, first, most=10**9)
    there = before.reweighted(stations.log_factors(before.points)[..., 0])
    found: tuple[Remark, ...] = ()
    shape = there.shape
    carried = Carried(there, Cost(), 1, 1.0)
    reaches = shape <= _MOST_SHAPE and there.effective >= _FEWEST
    if not reaches and key is not None:
        before = Ensemble.of(given, result, first)
        carried = carry(given, before, target, on)
    elif not reaches:
        found = (Finding.NOT_COVERED(ess=there.effective, tail_index=shape),)
    note = AfterNote.REWEIGHTED(ess=there.effective, total=there.log_weights.size, tail_index=shape)
    return arrived(moved, result, carried, note, log_ratio(before, carried.ensemble), result.data, found)
