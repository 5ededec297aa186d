"""The log evidence from posterior draws that are there already."""

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..adapters import Model, read_draws
from ..after import Origin
from ..core import Cost, LogDensity, Point, PRNGKey, PyTree, Stream, quiet, sigmoid, stream_of
from ..densities import Density, DensityLike, as_density, has_gradient, marked
from ..references import Component, End, Reference, climb, fit_map
from ..remarks import DrawsFinding, DrawsNote, Note, Refusal, Remark, Verdict
from ..results import Kept, Result, Status
from ..rows import Faults, HostDensities, Layout, OneDensity, rejecting
from ..search import BASE_SHARE
from ..stats import bridge, effective_size, importance_log_evidence, r_hat
from .exchange import drifting
from .inputs import coordinate_names, listed
from .problem import adapter_for, check_faults, first_fault, marked_if_blind, path_of, with_names

Matrix = Float[np.ndarray, "_ d"]
Values = Float[np.ndarray, " _"]

_WIDER, _WIDE_DF, _FALLBACK_DF = 5.0, 3.0, 5.0
"""Factor by which the wide distribution is wider than the draws, its degrees of freedom, and those of a last resort."""
_MOST_SPLITS = 3
NUM_STARTS, _NUM_OWN, _MAX_ROUNDS, _GAIN = 64, 8, 60, 1e-4
_SAME, _UNLIKE, _FEWEST_THERE, _RARE = 0.2, 3.0, 20, 0.05
"""Distance of ends of ascents that are one mode, nats above the usual ratio to the reference from which a point is not
like the draws, draws that a mode must have to be of interest, and the share of them below which it is missed."""
Chains = Float[np.ndarray, "chains n d"]
_PROPOSED = 4
"""Draws of the references for each posterior draw."""
_FEWEST, _MOST_ERROR, _MOST_R_HAT = 100, 0.5, 1.05
_UNUSUAL = 4.0
"""Standard errors beyond which two estimates are said to differ."""
_SMALLEST = 0.02
"""Nats that are of no interest."""


def wide_density(rows: Matrix, layout: Layout) -> Density:
    """Make a Student-t distribution around the draws and far beyond them, for models without a prior to draw from.

    In NumPy, because a sampler of JAX would be compiled for every call.
    """
    center, scale = np.mean(rows, axis=0), _WIDER * np.maximum(np.std(rows, axis=0), 1e-12)
    wide = Component.linear(_WIDE_DF, center, np.diag(scale**2))

    def at(points: Point) -> tuple[Values, Matrix]:
        return wide.log_prob_and_slope(np.asarray(layout.rows(points), float))

    def sample(generator: np.random.Generator) -> Point:
        noise = generator.standard_normal(len(center)) / np.sqrt(generator.standard_gamma(_WIDE_DF / 2) * 2 / _WIDE_DF)
        return layout.points(center + scale * noise)

    return Density(
        lambda points: at(points)[0],
        sample,
        backend="numpy",
        batched=True,
        gradient=lambda points: layout.points(at(points)[1]),
    )


def reference_for(rows: Matrix, scores: Matrix | None, inner: DensityLike, layout: Layout) -> Reference:
    """Fit a reference to draws, mixed with a little of the prior or the wide distribution."""
    components, shares = _components(rows, scores, _MOST_SPLITS)
    return Reference(tuple(components), np.asarray(shares), inner, BASE_SHARE, layout)


def _components(rows: Matrix, scores: Matrix | None, splits: int) -> tuple[list[Component], list[float]]:
    """Fit one Student-t distribution, perhaps curved, to each group of draws."""
    fit = fit_map(rows, scores)
    if fit.fitted is not None:
        return [fit.fitted], [1.0]
    if fit.refusal is Refusal.SUBSPACE:
        raise ValueError(
            "the draws lie in a subspace of their dimension: a variable may be constant, twice there, or determined by "
            "others (proportions that sum to 1); leave it out, or give the model with its prior as objects."
        )
    groups = _groups(rows) if fit.refusal is Refusal.SEVERAL_GROUPS and splits else None
    if groups is None:
        matrix = np.atleast_2d(np.cov(rows.T)) * (_FALLBACK_DF - 2) / _FALLBACK_DF
        return [Component.linear(_FALLBACK_DF, rows.mean(axis=0), matrix)], [1.0]
    components, shares = [], []
    for group in (groups, ~groups):
        own, weights = _components(rows[group], None if scores is None else scores[group], splits - 1)
        components += own
        shares += [weight * float(np.mean(group)) for weight in weights]
    return components, shares


@quiet()
def _groups(rows: Matrix) -> np.ndarray | None:
    """Split the draws in two groups, across the direction along which they separate best."""
    standard = (rows - rows.mean(axis=0)) / np.std(rows, axis=0)
    axes = np.vstack([np.eye(rows.shape[1]), np.linalg.eigh(standard.T @ standard)[1].T])
    best, chosen = -np.inf, None
    for values in axes @ standard.T:
        ordered = np.sort(values)
        num = np.arange(1, len(ordered))
        left = np.cumsum(ordered)[:-1]
        # Otsu's rule: the cut with the largest variance between the two groups, as a share of all variance.
        between = (len(ordered) * left - num * ordered.sum()) ** 2 / (num * (len(ordered) - num)) / len(ordered)
        cut = int(np.argmax(between))
        if between[cut] / np.sum((ordered - ordered.mean()) ** 2) > best:
            best = float(between[cut] / np.sum((ordered - ordered.mean()) ** 2))
            chosen = values > 0.5 * (ordered[cut] + ordered[cut + 1])
    fewest = 4 * rows.shape[1] + 4
    return chosen if chosen is not None and min(chosen.sum(), (~chosen).sum()) >= fewest else None


class Elsewhere(NamedTuple):
    """A mode far from all draws, and its height relative to that of the draws."""

    position: np.ndarray
    height: float


@quiet()
def mode_elsewhere(
    gradient: Callable[[Matrix], tuple[Values, Matrix]],
    starts: Matrix,
    rows: Matrix,
    log_target: Values,
    reference: Reference,
) -> tuple[Elsewhere | None, int]:
    """Return the highest mode that the draws miss among the ends of ascents from `starts`, and the gradients used.

    Where the target exceeds what was fitted to the draws, draws should do so too: as many as the height of the mode
    says. Distances would not do, since in many dimensions the nearest draw is far from every point. Where ascents from
    the draws lead as well is no other mode (but the neck of a funnel, perhaps).
    """

    def excess(positions: Matrix, values: Values) -> Values:
        """Return the log of the target over the fitted components alone."""
        return values - np.asarray(reference.given_inner(positions, np.full(len(positions), -np.inf), None)[0])

    spread = np.maximum(np.std(rows, axis=0), 1e-12)
    own = rows[np.linspace(0, len(rows) - 1, _NUM_OWN).astype(int)]
    climbed = climb(gradient, np.concatenate([own, starts]), spread, _MAX_ROUNDS, _GAIN)
    home, away = climbed.position[:_NUM_OWN], climbed.position[_NUM_OWN:]
    apart = np.sqrt(np.mean(np.square((away[:, None] - home) / spread), axis=2))
    height = climbed.value[_NUM_OWN:] - np.median(climbed.value[:_NUM_OWN])
    seen, there = excess(rows, log_target), excess(away, climbed.value[_NUM_OWN:])
    num_seen = np.sum(seen[:, None] > there - 1, axis=0)
    num_expected = len(rows) * np.exp(np.minimum(height, 0.0))
    missed = (climbed.end[_NUM_OWN:] == End.CONVERGED) & (np.mean(apart < _SAME, axis=1) < 0.5)
    missed &= (there > np.median(seen) + _UNLIKE) & (num_expected > _FEWEST_THERE) & (num_seen < _RARE * num_expected)
    if not missed.any():
        return None, climbed.num_evaluations
    best = int(np.argmax(np.where(missed, height, -np.inf)))
    return Elsewhere(away[best], float(height[best])), climbed.num_evaluations


def points_as_text(layout: Layout, position: np.ndarray) -> str:
    """Write a point for a sentence, with three digits."""
    return str(jax.tree.map(lambda leaf: np.round(np.asarray(leaf, float), 3).tolist(), layout.points(position)))


def evidence_from_draws(
    model: Model | DensityLike | LogDensity,
    draws: PyTree,
    *,
    key: PRNGKey,
    faults: Literal["reject", "raise"] = "reject",
) -> Result:
    """Compute the log evidence from posterior draws of any sampler, by bridge sampling, with its error and a verdict.

    Args:
        model: A model of `qpaths.adapters`, or the unnormalized log density (prior times likelihood) of one draw.
        draws: InferenceData or DataTree of ArviZ (PyMC's traces too), a NumPyro `MCMC`, a dictionary of arrays, or an
            array with one row for each draw. With a model they are its variables by name, in their own units. With a
            log density they are the points that it takes.
        key: For the draws of the references.
        faults: Whether a point at which the density is NaN or `+inf`, or raises an error, counts as a point without
            mass. The verdict says how many there are. `"raise"` stops at the first one.

    A reference distribution is fitted to one half of each chain, and bridges to the other half (Meng and Wong, 1996);
    then the halves change places. The standard error counts the autocorrelation of the draws. Ascents from the prior,
    or from far around the draws, look for modes that the draws miss. Reversible moves must leave the draws as they are,
    on average, or they come from another density. What these find is a warning. A mode that nothing finds goes unseen:
    `qpaths.evidence` starts from the prior and does not depend on a sampler.

        result = qpaths.evidence_from_draws(from_numpyro(model, y), mcmc, key=jax.random.key(0))

    Returns:
        A `Result` with `log_evidence`, `log_evidence_se`, the draws as `samples`, and a `verdict`.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> draws = jax.random.normal(jax.random.key(0), (1000, 2))  # of the density below
        >>> result = qp.evidence_from_draws(lambda x: -0.5 * jnp.sum(x**2), draws, key=jax.random.key(1))
        >>> bool(abs(result.log_evidence - jnp.log(2 * jnp.pi)) < 5 * result.log_evidence_se)
        True
    """
    check_faults(faults)
    chains, layout, target, inner = _prepared(model, draws)
    rejected = Faults() if faults == "reject" else None
    with rejecting(rejected):
        result = _bridged(model, chains, layout, target, inner, key)
    named = model if isinstance(model, Model) else None
    said = [] if named is None else list(named.notes)
    if rejected is not None and rejected.first is not None:
        said.append(Note.FAULTS(what=first_fault(rejected, layout, named), num=rejected.num))
    verdict = result.verdict
    assert verdict is not None
    notes = [remark for remark in said if isinstance(remark.kind, Note)]
    findings = [remark for remark in said if not isinstance(remark.kind, Note)]
    for finding in findings:
        warnings.warn(f"evidence_from_draws: {finding}.", stacklevel=2)
    verdict = Verdict(verdict.stopped, (*verdict.chosen, *notes), (*verdict.findings, *findings))
    result = dataclasses.replace(result, verdict=verdict)
    if named is None:
        return with_names(result, None, None)
    path = path_of(named)
    result = dataclasses.replace(result, origin=Kept(Origin(path, named, named.log_likelihood, named.data)))
    return with_names(result, named, named.data)


def _bridged(
    model: Model | DensityLike | LogDensity,
    chains: Chains,
    layout: Layout,
    target: DensityLike,
    inner: DensityLike | None,
    key: PRNGKey,
) -> Result:
    """Return the answer from draws in the coordinates of the density."""
    stream = stream_of(key, host=True)
    target, _ = marked_if_blind(target, "target", layout)
    with_slopes = has_gradient(target) and (inner is None or has_gradient(inner))
    rows = chains.reshape(-1, layout.dimension)
    if inner is None:
        inner = wide_density(rows, layout)
    densities = HostDensities(layout, with_slopes)
    alone = OneDensity(target, "target", densities, with_slopes)
    at = alone.particles(rows, with_slopes=with_slopes)
    log_target = at.features
    _check_values(log_target, layout, rows)
    scores = at.slopes.reshape(chains.shape) if with_slopes else None
    drifts, num = drifting(alone, at, chains.shape[:2], coordinate_names(layout), stream.fold(3))
    cost = Cost(target_gradient=len(rows) + num) if with_slopes else Cost(target=len(rows) + num)
    half = chains.shape[1] // 2
    early, late = slice(0, half), slice(half, 2 * half)
    bridges = []
    for number, (fitted, used) in enumerate(((early, late), (late, early))):
        own = None if scores is None else scores[:, fitted].reshape(-1, layout.dimension)
        reference = reference_for(chains[:, fitted].reshape(-1, layout.dimension), own, inner, layout)
        bridges.append(_bridge(densities, reference, target, chains[:, used], stream.fold(number)))
        cost += Cost(target=chains[:, used].size // layout.dimension * (1 + _PROPOSED))
    found, extra = _findings(bridges, log_target.reshape(chains.shape[:2]), drifts)
    where = "the prior" if isinstance(model, Model) else "far around the draws"
    if with_slopes:
        starts = np.asarray(densities.draw(inner, stream.fold(2), NUM_STARTS), float)

        def gradient(positions: Matrix) -> tuple[Values, Matrix]:
            return densities.at({"target": target}, positions, with_slopes=True)[0]

        elsewhere, num = mode_elsewhere(gradient, starts, rows, log_target, reference)
        cost += Cost(target_gradient=num)
        if elsewhere is not None:
            point = points_as_text(layout, elsewhere.position)
            found.append(DrawsFinding.MISSED_MODE(where=where, point=point, height=elsewhere.height))
    elif chains.shape[0] == 1:
        found.append(DrawsFinding.NO_SEARCH())
    for finding in found:
        warnings.warn(f"evidence_from_draws: {finding}.", stacklevel=3)
    value = float(np.mean([one.value for one in bridges]))
    error = _pooled_error(*bridges) + extra
    worth = sum(one.worth for one in bridges)
    note = DrawsNote.BRIDGED(num=len(rows), num_chains=len(chains), num_proposed=_PROPOSED * 2 * half * len(chains))
    verdict = Verdict(note, (DrawsNote.WORTH(worth=worth),), tuple(found))
    return _result(value, error, worth, layout.points(rows), cost, verdict)


def _prepared(
    model: Model | DensityLike | LogDensity, draws: PyTree
) -> tuple[Chains, Layout, DensityLike, DensityLike | None]:
    """Return unconstrained draws by chain, their layout, the log density, and the prior if there is one."""
    if not isinstance(model, Model) and not hasattr(model, "log_prob") and (hint := adapter_for(model)):
        is_numpyro = callable(model) and len(inspect.signature(model).parameters) != 1
        if is_numpyro or not callable(model):
            raise TypeError(f"`model` must be a model of qpaths, or a log density of one draw.{hint}")
    variables = model.variables if isinstance(model, Model) else None
    found = read_draws(draws, variables)
    num_chains, num = jax.tree.leaves(found)[0].shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(num_chains * num, *leaf.shape[2:]), found)
    if isinstance(model, Model):
        points = model.points(flat)
        target: Any = path_of(model).target
        inner = model.prior
    else:
        points, target, inner = flat, marked(as_density(model, "log_density"), called="log_density"), None
    points = jax.tree.map(lambda leaf: np.asarray(leaf, jax.dtypes.canonicalize_dtype(float)), points)
    layout = Layout.of(jax.tree.map(lambda leaf: leaf[0], points))
    rows = np.asarray(layout.rows(points), float)
    fewest = 2 * (4 * layout.dimension + 4)
    if len(rows) < fewest:
        raise ValueError(
            f"`draws` has {len(rows)} draws in {layout.dimension} dimensions, and at least {fewest} are needed: run "
            f"the sampler longer."
        )
    if not np.isfinite(rows).all():
        raise ValueError(
            f"draw {int(np.argwhere(~np.isfinite(rows))[0][0])} lies on the boundary of the support of a variable "
            f"(a scale of exactly 0, say): leave such draws out."
        )
    return rows.reshape(num_chains, num, -1), layout, target, inner


def _check_values(log_target: np.ndarray, layout: Layout, rows: np.ndarray) -> None:
    """Raise where a draw has no density: it cannot come from it."""
    bad = np.flatnonzero(~np.isfinite(log_target))
    if bad.size:
        point = points_as_text(layout, rows[bad[0]])
        raise ValueError(
            f"the log density is {log_target[bad[0]]} at {bad.size} of {len(rows)} draws, first at {point}: these "
            f"draws cannot come from it; check that model and draws belong together, and the units of the draws."
        )


class _Bridge(NamedTuple):
    """Hold what one half of the draws says."""

    value: float
    error: float
    worth: float
    """Independent draws that the half is worth."""
    by_reference: tuple[float, float]
    """The estimate of the reference alone, and its standard error."""


@quiet()
def _bridge(
    densities: HostDensities, reference: Reference, target: DensityLike, chains: Chains, stream: Stream
) -> _Bridge:
    """Bridge between a reference and draws from the target.

    The standard error is that of Fruehwirth-Schnatter (2004): the two means of the bridge equation, the one over the
    draws with what correlated draws are worth.
    """
    num_chains, num, dimension = chains.shape
    proposed = densities.draw(reference, stream, _PROPOSED * num_chains * num)

    def log_ratio(rows: np.ndarray) -> np.ndarray:
        (log_base, _), (log_target, _) = densities.at({"base": reference, "target": target}, rows, with_slopes=False)
        return log_target - log_base

    forward, reverse = log_ratio(np.asarray(proposed)), log_ratio(chains.reshape(-1, dimension))
    value = float(bridge(forward[None], -reverse[None])[0])
    offset = value - math.log(len(reverse) / len(forward))
    there, back = sigmoid(forward - offset), sigmoid(offset - reverse)
    worth = min(effective_size(back.reshape(num_chains, num)), float(back.size))
    variance = np.var(there) / np.mean(there) ** 2 / there.size + np.var(back) / np.mean(back) ** 2 / worth
    alone, alone_error = importance_log_evidence(forward)
    return _Bridge(value, float(np.sqrt(variance)), worth, (float(alone), float(alone_error)))


def _pooled_error(first: _Bridge, second: _Bridge) -> float:
    """Return the standard error of the mean of two estimates, larger if they differ by more than they say."""
    own, seen = 0.5 * math.hypot(first.error, second.error), 0.5 * abs(first.value - second.value)
    return max(own, math.sqrt(0.5 * (own**2 + seen**2)))


def _findings(bridges: list[_Bridge], log_target: np.ndarray, drifts: list[str]) -> tuple[list[Remark], float]:
    """Return what looks unreliable, and what it adds to the error; `drifts` is what moves change in the draws."""
    found: list[Remark] = []
    extra = 0.0
    first, second = bridges
    error = math.hypot(first.error, second.error)
    value, worth = (first.value + second.value) / 2, first.worth + second.worth
    more = float(np.mean([one.by_reference[0] for one in bridges])) - value
    alone = math.hypot(*(one.by_reference[1] for one in bridges)) / 2
    if more > max(_UNUSUAL * math.hypot(alone, error / 2), _SMALLEST):
        found.append(DrawsFinding.MISSED_MASS(more=more))
        extra += more
    if drifts:
        found.append(DrawsFinding.OTHER_DENSITY(what=listed(range(len(drifts)), drifts)))
        # The estimate of the reference alone does not use the draws.
        extra = max(extra, abs(more) + alone)
    difference = abs(first.value - second.value)
    if difference > max(_UNUSUAL * error, _SMALLEST):
        found.append(DrawsFinding.HALVES_DISAGREE(difference=difference, error=error))
        extra += difference / 2
    if not (spread := r_hat(log_target)) <= _MOST_R_HAT:
        found.append(DrawsFinding.CHAINS_DISAGREE(r_hat=spread))
    if not worth >= _FEWEST:
        found.append(DrawsFinding.DRAWS_WORTH_LITTLE(worth=worth, fewest=_FEWEST))
    if error / 2 > _MOST_ERROR:
        found.append(DrawsFinding.DRAWS_FIT_BADLY(error=error / 2, most=_MOST_ERROR))
    return found, extra


def _result(value: float, error: float, worth: float, samples: Point, cost: Cost, verdict: Verdict) -> Result:
    """Make the result: the draws with equal weights, and one step from the references to them."""
    unknown, num = np.full(1, np.nan), len(jax.tree.leaves(samples)[0])
    stats: Any = {
        "beta": np.ones(1),
        "ess": np.full(1, worth),
        "acceptance": unknown,
        "step_size": unknown,
        "log_evidence": np.full(1, value),
    }
    return Result(
        log_evidence=np.asarray(value),
        log_evidence_se=np.asarray(error),
        samples=samples,
        log_weights=np.full(num, value),
        betas=np.array([0.0, 1.0]),
        stats=stats,
        status=np.asarray(int(Status.OK)),
        num_evaluations=cost,
        algorithm="EvidenceFromDraws",
        verdict=verdict,
    )
