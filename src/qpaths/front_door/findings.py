"""What looks unreliable in the islands of a run."""

import math

import numpy as np

from ..algorithms.islands import FEW_SURVIVE, Islands
from ..numerics import log_ess
from ..recipe import Recipe
from ..remarks import Finding, Note, Refusal, Remark
from .look import Checks
from .sampler import listed

_RARE_WITH_GRADIENT, _RARE = 0.4, 0.1
"""Acceptance rates below which moves are said to be rarely accepted."""
_DISAGREEMENT = 0.9999
"""Probability with which sound islands agree better, above which they are said to disagree."""
_LAG_NOISE = 2.0
"""Standard errors of the mean lag of all islands that are not held against a run."""
_MOST_ERROR, _FEWEST = 0.5, 100
"""A standard error, also of a single island, and an effective sample size beyond which no answer is called sound."""


def findings(islands: Islands, recipe: Recipe, checks: Checks, names: list[str]) -> list[Remark]:
    """All findings about a run with a recipe, those of its pilots included; `names` are those of the coordinates."""
    balance, missed, drift, missing = checks
    found = [*recipe.findings, *_of_islands(islands), *_of_answer(islands, checks.error)]
    if balance.imbalance > 0:
        found.append(Finding.SCORES(imbalance=balance.imbalance))
    if balance.narrow > 0:
        where = listed(balance.where, names) or "all coordinates together"
        found.append(Finding.NARROW(where=where, short=balance.narrow))
    if missed.error > 0:
        numbers = {"expected": missed.expected, "found": missed.found, "error": missed.error}
        found.append(Finding.MISSED_MODE(coordinate=missed.coordinate, **numbers))
    if missing.modes:
        numbers = {"expected": missing.expected, "found": missing.found, "error": missing.error}
        found.append(Finding.UNCOVERED(num_modes=len(missing.modes), **numbers))
    if drift.error > 0:
        found.append(Finding.DRIFT(before=drift.before, after=drift.after, error=drift.error))
    betas = islands.stats["beta"][0]
    acceptance = np.mean(islands.stats["acceptance"], axis=0)
    worst = int(np.argmin(np.nan_to_num(acceptance, nan=1.0)))  # nothing moves at the last beta
    if acceptance[worst] < (_RARE_WITH_GRADIENT if recipe.kernel.with_slopes else _RARE):
        found.append(Finding.ACCEPTANCE(acceptance=float(acceptance[worst]), beta=float(betas[worst])))
    num, total = int(np.sum(islands.stats["num_ancestors"], axis=0)[-1]), int(islands.log_weights.size)
    if num < 0.01 * total:
        found.append(Finding.ANCESTORS(num=num, total=total))
    lengths = np.mean(islands.stats["length"], axis=0)
    worst = int(np.argmax(lengths))
    if lengths[worst] > FEW_SURVIVE:
        found.append(Finding.LONG_STEP(beta=float(betas[worst])))
    if found and any(note.kind is Note.REFUSED and note.refusal is Refusal.AT_INFINITY for note in recipe.notes):
        found.append(Finding.RISES())
    return found


def _of_islands(islands: Islands) -> list[Remark]:
    lost = int(np.sum(~np.isfinite(islands.log_evidence)))
    if lost:
        return [Finding.LOST_ISLANDS(num=lost, total=int(islands.log_evidence.size))]
    found = [Finding.DISAGREEMENT()] if islands.disagreement > _DISAGREEMENT else []
    return found + ([Finding.SPREAD(spread=islands.spread)] if islands.spread > _MOST_ERROR else [])


def _of_answer(islands: Islands, extra_error: float) -> list[Remark]:
    """What no answer can be sound with, however the islands look."""
    found = []
    error = math.hypot(islands.pooled[1], extra_error)
    lag, noise = islands.lag
    if abs(lag) - _LAG_NOISE * noise > error:
        found.append(Finding.LAG(lag=lag, error=error))
    error = islands.error(extra_error)
    if not error <= _MOST_ERROR:
        found.append(Finding.LARGE_ERROR(error=error, most=_MOST_ERROR))
    if islands.is_heavy:
        found.append(Finding.HEAVY_WEIGHTS(tail_index=islands.tail_index))
    ess = float(np.exp(log_ess(islands.log_weights.ravel())))
    if not ess >= _FEWEST:
        found.append(Finding.FEW_EFFECTIVE(ess=ess, total=islands.log_weights.size, fewest=_FEWEST))
    return found
