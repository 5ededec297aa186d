"""More data: from the draws of a posterior to those of the posterior with another block of data."""

import dataclasses
import itertools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import PRNGKey, QpathsTypeError, log_mean_exp, takes_two
from ..densities import as_pytree
from ..remarks import AfterNote, Remark, Verdict
from ..results import Kept, Result, Status
from ..rows import stream_for
from .carry import Carried, Ensemble, carry, change, log_ratio
from .given import Given, digests
from .stations import Stations, Visit, check_jax, walk


def updated(given: Given, result: Result, new_data: Any, key: PRNGKey) -> Result:
    """Return the result with new data in the model, by a path from the posterior without them."""
    check_new(given, result, new_data)
    first, on = stream_for(key, given.path, pilots=True).split(2)
    before = Ensemble.of(given, result, first)
    target = given.plus(given.likelihood, new_data)
    carried = carry(given, before, target, on)
    new = given.moved_to(target)
    difference, error = log_ratio(before, carried.ensemble)
    note = AfterNote.UPDATED(predictive=difference, predictive_se=error, num_steps=carried.num_steps)
    known = tuple(sorted({*result.data, *digests(new_data)}))
    return arrived(new, result, carried, note, (difference, error), known)


def by_blocks(given: Given, result: Result, blocks: list[Any], key: PRNGKey) -> Result:
    """Return the result with further blocks of data, and the log evidence after each (data annealing).

    The log likelihoods of all blocks at a draw are known at once, so that blocks are added by weights alone until these
    are uneven. Then the draws are moved.
    """
    check_jax(given, "evidence(..., batches=...)")
    for block in blocks:
        check_new(given, result, block)
    shapes = [jax.tree.map(np.shape, block) for block in blocks]
    if other := next((shape for shape in shapes if shape != shapes[0]), None):
        raise ValueError(f"`batches` after the first must have one shape, got {shapes[0]} and {other}: pad them.")
    first, on = stream_for(key, given.path, pilots=True).split(2)
    start, num = Ensemble.of(given, result, first), len(blocks)
    constant = as_pytree(given.likelihood), jax.tree.map(lambda *leaves: np.stack(leaves), *blocks)
    stations = Stations(given, _of_blocks, np.tril(np.ones((num, num))), constant)
    visits: list[Visit] = []
    last, num_moves, cost = walk(stations, start, range(num), on, lambda _, visit: visits.append(visit))
    there = [start.log_evidences, *(visit.ensemble.log_evidences for visit in visits)]
    totals = np.array([change(there[0], at) for at in there[1:]])
    steps = np.array([change(*pair) for pair in itertools.pairwise(there)])
    carried = Carried(visits[-1].ensemble, cost, num_moves, 1.0 if last is None else last.acceptance)
    note = AfterNote.BATCHES(num=num + 1, num_moves=num_moves)
    known = tuple(sorted({*result.data, *(d for block in blocks for d in digests(block))}))
    new = arrived(given.moved_to(stations.density(num - 1)), result, carried, note, tuple(totals[-1]), known)
    unknown = np.full(num + 1, np.nan)
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    blockwise: Any = {
        "beta": np.arange(1, num + 2) / (num + 1),
        "ess": np.array([result.ess, *(visit.ensemble.effective for visit in visits)], float),
        "acceptance": unknown,
        "step_size": unknown,
        "log_evidence": np.array([value, *(value + totals[:, 0])]),
        "log_evidence_se": np.array([error, *np.hypot(error, totals[:, 1])]),
        "log_predictive": np.array([value, *steps[:, 0]]),
        "log_predictive_se": np.array([error, *steps[:, 1]]),
    }
    return dataclasses.replace(new, stats=blockwise, betas=np.append(0.0, blockwise["beta"]))


def _of_blocks(x: Any, mask: Any, constant: Any) -> Any:
    likelihood, blocks = constant
    return jnp.sum(jnp.where(mask > 0, jax.vmap(lambda block: likelihood(x, block))(blocks), 0.0))


def arrived(
    given: Given,
    result: Result,
    carried: Carried,
    note: Remark,
    change: tuple[float, float],
    data: tuple[str, ...],
    found: tuple[Remark, ...] = (),
) -> Result:
    """Return the result of draws that have been carried from those of another one.

    `change` is that of the log evidence, with its standard error. What was doubtful of the old result still is.
    """
    ensemble, (difference, error) = carried.ensemble, change
    value = float(result.log_evidence) + difference
    # The two errors have draws in common, and may add up or cancel; islands that spread more than that tell of it.
    total = max(float(np.hypot(float(result.log_evidence_se), error)), ensemble.error)
    found = found or tuple(carried.findings(total))
    old = () if result.verdict is None else result.verdict.findings
    for finding in found:
        warnings.warn(f"{result.algorithm}: {finding}.", stacklevel=4)
    points, _num = ensemble.flat, ensemble.log_weights.size
    unknown = np.full(1, np.nan)
    stats: Any = {
        "beta": np.ones(1),
        "ess": np.full(1, ensemble.effective),
        "acceptance": np.full(1, carried.acceptance),
        "step_size": unknown,
        "log_evidence": np.full(1, value),
        "log_predictive": np.full(1, difference),
        "log_predictive_se": np.full(1, error),
    }
    shift = value - float(log_mean_exp(ensemble.log_weights.ravel()))
    islands = ensemble.log_evidences + shift
    return Result(
        log_evidence=np.asarray(value),
        log_evidence_se=np.asarray(total),
        samples=given.named(points),
        log_weights=ensemble.log_weights.ravel() + shift,
        betas=np.array([0.0, 1.0]),
        stats=stats,
        status=np.asarray(int(Status.OK)),
        num_evaluations=result.num_evaluations + carried.cost,
        algorithm=result.algorithm,
        verdict=Verdict(note, (), (*old, *found)),
        islands={"log_evidence": islands, "log_evidence_se": np.full(islands.size, total * islands.size**0.5)},
        unconstrained=None if given.model is None else points,
        data=data,
        origin=Kept(given),
    )


def check_new(given: Given, result: Result, new_data: Any) -> None:
    """Raise unless the model can take more data, and these are new."""
    if given.likelihood is None or given.data is None or not takes_two(given.likelihood):
        raise QpathsTypeError(
            "`update` needs a likelihood that takes data, so that it can be asked about new ones: give the model as "
            "`evidence(prior=..., log_likelihood=f, data=...)` with `f(p, data)`."
        )
    if any(leaf.dtype.kind == "f" and np.isnan(leaf).any() for leaf in map(np.asarray, jax.tree.leaves(new_data))):
        raise ValueError("`new_data` holds NaN: leave out what is missing, or mask it in the likelihood.")
    there, new = (jax.tree.structure(data) for data in (given.data, new_data))
    if str(there) != str(new):
        raise QpathsTypeError(f"`new_data` must be built as the data of the model, {there}, got {new}.")
    again = set(digests(new_data)) & set(result.data)
    if new_data is given.data or (again and again == set(digests(new_data))):
        raise ValueError(
            "`new_data` are in the model already, so that they would count twice: give the new observations alone."
        )
