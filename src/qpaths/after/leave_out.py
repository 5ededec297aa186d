"""Left-out data: the predictive density of each observation given the others, by weights or by a path."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..adapters import Model
from ..core import Cost, PRNGKey, QpathsTypeError, logsumexp, quiet, takes_two, to_host
from ..densities import evaluate
from ..io import Checkpoint
from ..remarks import Finding, Remark
from ..results import Result
from ..rows import AtMost, in_pieces, layout_of, stream_for
from ..stats import jackknife_se, pareto_shape
from .carry import Ensemble, carry, log_ratio
from .given import Given
from .many import MOST_DIMENSIONS, Call, ManyResults, Table
from .stations import check_jax

_MOST_SHAPE, _CHUNK = 0.5, 1024
_WANTED, _SAME, _NUMS = 0.02, 0.03, (4096, 16384)
"""Standard errors and nats that are small enough, and draws of a data set without an observation."""
_OFF = 1e-3
"""A share of the log likelihood by which the sum over observations may differ from it."""

Column = Float[np.ndarray, " data"]


@dataclasses.dataclass(frozen=True)
class LeaveOneOut:
    """Expected log predictive density from left-out data, from `loo`. `to_arviz()` makes an `ELPDData` of ArviZ.

    Attributes:
        elpd: The sum over observations.
        se: Its standard error, from the spread of the observations.
        p_loo: The effective number of parameters.
        pointwise: The log predictive density of each observation.
        pointwise_se: Their Monte Carlo errors, from the spread of islands.
        pareto_shape: Pareto index of the weights of each observation; NaN for folds.
        exact: Whether the observation was taken out, as where the index is above 0.5, and for folds.
        findings: What looks unreliable, by the number of the observation or fold.
        num_draws: Draws of the posterior that were used.
        num_evaluations: What the paths cost.

    Examples:
        >>> import jax, jax.numpy as jnp, qpaths as qp
        >>> norm = jax.scipy.stats.norm.logpdf
        >>> y = jnp.array([0.1, -0.4, 0.9])
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p, y: norm(y, p["mu"]).sum()}
        >>> result = qp.evidence(**model, data=y, budget=20_000, key=jax.random.key(0))
        >>> left_out = qp.loo(result, key=jax.random.key(1), log_likelihood=lambda p, y: norm(y, p["mu"]))
        >>> left_out.pointwise.shape, bool(abs(left_out.pointwise[0] - norm(0.1, 0.5 / 3, (4 / 3) ** 0.5)) < 0.05)
        ((3,), True)
    """

    elpd: float
    se: float
    p_loo: float
    pointwise: Column
    pointwise_se: Column
    pareto_shape: Column
    exact: np.ndarray
    findings: dict[int, tuple[Remark, ...]]
    num_draws: int
    num_evaluations: Cost

    def __str__(self) -> str:
        error = float(np.sqrt(np.sum(np.square(self.pointwise_se))))
        return (
            f"elpd {self.elpd:.2f} +- {self.se:.2f} over {len(self.pointwise)} observations, p_loo {self.p_loo:.2f}; "
            f"Monte Carlo error {error:.2g}; {np.sum(self.exact)} taken out exactly, {len(self.findings)} doubtful"
        )

    def to_arviz(self) -> Any:
        """Return an `ELPDData`, for `arviz.compare` and ArviZ's plots."""
        try:
            import arviz
        except ImportError as error:
            raise ImportError("`to_arviz` needs ArviZ: pip install 'qpaths[arviz]'.") from error
        shapes = np.where(np.isfinite(self.pareto_shape) & ~self.exact, self.pareto_shape, 0.0)
        num, doubtful = len(self.pointwise), bool(self.findings)
        if hasattr(arviz, "ELPDData") and dataclasses.is_dataclass(arviz.ELPDData):
            names = {field.name for field in dataclasses.fields(arviz.ELPDData)}
            values = {"kind": "loo", "elpd": self.elpd, "se": self.se, "p": self.p_loo, "n_samples": self.num_draws}
            values |= {"n_data_points": num, "scale": "log", "warning": doubtful, "good_k": _MOST_SHAPE}
            values |= {"elpd_i": self.pointwise, "pareto_k": shapes}
            return arviz.ELPDData(**{name: value for name, value in values.items() if name in names})
        import xarray
        from arviz.stats.stats_utils import ELPDData  # as ArviZ's own functions make it, before version 1

        values = {"elpd_loo": self.elpd, "se": self.se, "p_loo": self.p_loo, "n_samples": self.num_draws}
        values |= {"n_data_points": num, "warning": doubtful, "loo_i": xarray.DataArray(self.pointwise)}
        values |= {"pareto_k": xarray.DataArray(shapes), "scale": "log", "good_k": _MOST_SHAPE}
        return ELPDData(data=list(values.values()), index=list(values))


def loo(
    result: Result,
    *,
    key: PRNGKey,
    log_likelihood: Callable[..., Any] | None = None,
    folds: int | Any | None = None,
) -> LeaveOneOut:
    """Leave-one-out cross-validation (Vehtari, Gelman and Gabry, 2017), exact where weights do not reach; or K folds.

    Args:
        result: Of `evidence`, with its model.
        key: For the paths, and for the choice of folds.
        log_likelihood: The log likelihood of each observation, as an array: `f(p)`, or `f(p, data)` where the model has
            data. Models of NumPyro and PyMC know their own.
        folds: A number of folds, or the fold of each observation. Each fold is taken out by a path.

    Weighted draws of the posterior are reweighted by one over the likelihood of an observation, with Pareto smoothing
    where ArviZ is installed. Where the Pareto index is above 0.5, or the error above 0.02, the answer is the change of
    the log evidence: without the observation as in `evidence_many`, or, beyond 30 parameters, along a path.

    Returns:
        A `LeaveOneOut`.

    Examples:
        >>> import jax, jax.numpy as jnp, qpaths as qp
        >>> norm = jax.scipy.stats.norm.logpdf
        >>> y = jnp.array([0.1, -0.4, 0.9, 0.3])
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p, y: norm(y, p["mu"]).sum()}
        >>> result = qp.evidence(**model, data=y, budget=20_000, key=jax.random.key(0))
        >>> each = lambda p, y: norm(y, p["mu"])
        >>> qp.loo(result, key=jax.random.key(1), log_likelihood=each, folds=2).exact.tolist()
        [True, True, True, True]
    """
    given: Given = result.known
    check_jax(given, "loo")
    function = _pointwise(given, log_likelihood)
    first, on, choose = stream_for(key, given.path, pilots=True).split(3)
    start = Ensemble.of(given, result, first, most=512)
    values = _at(function, start)
    offset = _check_sum(given, start, values)
    num = values.shape[-1]
    labels = None if folds is None else _labels(folds, num, choose)
    shapes, exact = np.full(num, np.nan), np.ones(num, bool)
    elpd, errors = np.zeros(num), np.zeros(num)
    findings: dict[int, tuple[Remark, ...]] = {}
    cost = Cost()
    if labels is None:
        for j in range(num):
            elpd[j], errors[j], shapes[j] = _by_weights(start, values[..., j])
        exact = ~((shapes <= _MOST_SHAPE) & (errors <= _WANTED))
        groups = [np.array([j]) for j in np.flatnonzero(exact)]
    else:
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if labels is None and groups and layout_of(given.path).dimension <= MOST_DIMENSIONS:
        exactly, groups = np.concatenate(groups), []
        many = _without(given, function, exactly, num, key)
        whole, se = float(result.log_evidence) - offset, float(result.log_evidence_se)
        elpd[exactly] = whole - many.log_evidence[:-1]
        errors[exactly] = np.hypot(se, many.log_evidence_se[:-1])
        # The last one has all observations, so that its answer is that of the result.
        apart = abs(whole - float(many.log_evidence[-1]))
        is_same = apart <= max(4 * math.hypot(se, many.log_evidence_se[-1]), _SAME)
        wrong = () if is_same else (Finding.LEFT_OUT(apart=apart),)
        cost += many.num_evaluations
        for j, verdict in zip(exactly, many.verdicts[:-1], strict=True):
            if found := (*wrong, *verdict.findings):
                findings[int(j)] = found
    for number, group in enumerate(groups):
        mask = np.zeros(num)
        mask[group] = 1.0
        target = given.plus(jax.tree_util.Partial(_taken_out, function), mask)
        carried = carry(given, start, target, on.fold(number), moves=labels is not None)
        cost += carried.cost
        if labels is None:
            change, error = log_ratio(start, carried.ensemble)
            elpd[group], errors[group] = -change, error
        else:
            there = _at(function, carried.ensemble)
            for j in group:
                elpd[j], errors[j] = log_ratio(carried.ensemble, carried.ensemble.reweighted(there[..., j]))
        if doubts := carried.findings(float(np.max(errors[group]))):
            findings[int(group[0] if labels is None else number)] = tuple(doubts)
    if findings:
        warnings.warn(f"loo: {len(findings)} are doubtful: {next(iter(findings.values()))[0]}.", stacklevel=2)
    full = [log_ratio(start, start.reweighted(values[..., j]))[0] for j in range(num)]
    total, se = float(np.sum(elpd)), math.sqrt(num * float(np.var(elpd)))
    draws = start.log_weights.size
    return LeaveOneOut(total, se, float(np.sum(full)) - total, elpd, errors, shapes, exact, findings, draws, cost)


def _without(given: Given, function: Any, exactly: Any, num: int, key: PRNGKey) -> ManyResults:
    """Return the answers without each of some observations, and with all: data sets that differ in what is there."""
    masks = np.ones((len(exactly) + 1, num))
    masks[np.arange(len(exactly)), exactly] = 0.0
    model, layout = given.model, layout_of(given.path)
    if model is None:
        names, base = {"x": (layout.dimension,)}, given.base
        model = Model(base, None, None, lambda x: {"x": layout.rows(x)}, lambda named: layout.points(named["x"]), names)  # type: ignore[arg-type]
    own = dataclasses.replace(model, log_likelihood=jax.tree_util.Partial(_of_those, function), pointwise=None)
    call = Call(own, masks, len(masks), _WANTED, 1_000_000, key, num_audited=0, nums=_NUMS)
    return call.results(call.run(Table({}, Cost()), Checkpoint(None, "many", {}), lambda *_: None))


def _of_those(function: Any, x: Any, mask: Any) -> Any:
    return jnp.sum(jnp.where(mask > 0, function(x), 0.0))


def _taken_out(function: Any, x: Any, mask: Any) -> Any:
    return -jnp.sum(jnp.where(mask > 0, function(x), 0.0))


def _pointwise(given: Given, function: Callable[..., Any] | None) -> Any:
    """Return the log likelihoods of all observations at a point, as one vector."""
    model = given.model
    if function is None and (model is None or model.pointwise is None):
        raise QpathsTypeError(
            "`loo` needs the log likelihood of each observation, and this model has one for all: give "
            "`loo(result, log_likelihood=f, key=key)`, where `f(p, data)` returns an array with one number for each."
        )

    def at(x: Any) -> Any:
        if function is None:
            found = model.pointwise(x)  # type: ignore[union-attr, misc]
        else:
            named = x if model is None else model.constrain(x)
            found = function(named, given.data) if given.data is not None and takes_two(function) else function(named)
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(found)])

    return jax.tree_util.Partial(at)


def _at(function: Any, ensemble: Ensemble) -> Float[np.ndarray, "islands n data"]:
    program = jax.jit(jax.vmap(function))
    found = in_pieces(lambda part: to_host(program(part)), ensemble.flat, AtMost(_CHUNK, "draws"))
    return np.asarray(found, float).reshape(*ensemble.log_weights.shape, -1)


def _check_sum(given: Given, ensemble: Ensemble, values: Any) -> float:
    """Return by what constant the log likelihood of the model exceeds that of the observations; raise if by another."""
    few = jax.tree.map(lambda leaf: leaf[:16], ensemble.flat)
    at: Any = jax.vmap(lambda x: evaluate(given.target, x, "target") - evaluate(given.base, x, "base"))
    whole, summed = np.asarray(at(few), float), values.reshape(-1, values.shape[-1])[:16].sum(axis=1)
    apart = np.ptp(whole - summed)
    if not apart <= _OFF * (1 + np.ptp(whole) + 1e-3 * np.max(np.abs(whole))):
        raise ValueError(
            f"the log likelihoods of the observations do not sum to that of the model: at one draw the sum is "
            f"{summed[0]:.6g}, and the model has {whole[0]:.6g}. Give those of the same model and data."
        )
    return float(np.mean(whole - summed))


@quiet()
def _by_weights(start: Ensemble, values: Any) -> tuple[float, float, float]:
    """Return the log predictive density of an observation by reweighted draws, its error and the Pareto index."""
    without = start.reweighted(-values)
    log_weights = (start.log_weights - values).ravel()
    shape = pareto_shape(log_weights - logsumexp(log_weights))
    try:
        from arviz import psislw

        smooth, k = psislw(log_weights - logsumexp(log_weights))
        smooth, shape = np.asarray(smooth).reshape(values.shape), max(shape, float(k))
    except ImportError:
        smooth = without.log_weights
    pairs = np.stack([logsumexp(smooth + values, axis=1), logsumexp(smooth, axis=1)])

    def ratio(pairs: Any) -> Any:
        return logsumexp(pairs[0]) - logsumexp(pairs[1])

    return float(ratio(pairs)), float(jackknife_se(ratio, pairs)), shape


def _labels(folds: Any, num: int, stream: Any) -> np.ndarray:
    """Return the fold of each observation."""
    if isinstance(folds, int) and not isinstance(folds, bool):
        if not 2 <= folds <= num:
            raise ValueError(f"`folds` must lie between 2 and the {num} observations, got {folds}.")
        return stream.generator.permutation(np.arange(num) % folds)
    labels = np.asarray(folds)
    if labels.shape != (num,) or len(np.unique(labels)) < 2:
        raise ValueError(f"`folds` must be a number, or two or more labels for {num} observations, got {labels.shape}.")
    return labels
