"""What looks unreliable in the islands of a run."""

import numpy as np

from ..algorithms import FEW_SURVIVE, Islands
from ..core import log_ess
from ..recipe import Recipe
from ..remarks import Finding, Note, Refusal, Remark
from ..stats import ErrorParts

_RARE_WITH_GRADIENT, _RARE = 0.4, 0.1
"""Acceptance rates below which moves are said to be rarely accepted."""
_DISAGREEMENT = 0.9999
"""Probability with which sound islands agree better, above which they are said to disagree."""
_LAG_NOISE = 2.0
"""Standard errors of the mean lag of all islands that are not held against a run."""
_MOST_ERROR, _FEWEST = 0.5, 100
"""A standard error, also of a single island, and an effective sample size beyond which no answer is called sound."""


def findings(islands: Islands, recipe: Recipe, parts: ErrorParts) -> list[Remark]:
    """Return what looks unreliable about a run with a recipe and its error, that of its pilots included."""
    found = [*recipe.findings, *_of_islands(islands), *_of_answer(islands, parts)]
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
    return found + ([Finding.SPREAD(spread=islands.deviation)] if islands.deviation > _MOST_ERROR else [])


def _of_answer(islands: Islands, parts: ErrorParts) -> list[Remark]:
    """What no answer can be sound with, however the islands look."""
    found = []
    lag, noise = islands.lag
    if abs(lag) - _LAG_NOISE * noise > parts.without_lag:
        found.append(Finding.LAG(lag=lag, error=parts.without_lag))
    if not parts.total <= _MOST_ERROR:
        found.append(Finding.LARGE_ERROR(error=parts.total, most=_MOST_ERROR))
    if islands.is_heavy:
        found.append(Finding.HEAVY_WEIGHTS(tail_index=islands.tail_index))
    ess = float(np.exp(log_ess(islands.log_weights.ravel())))
    if not ess >= _FEWEST:
        found.append(Finding.FEW_EFFECTIVE(ess=ess, total=islands.log_weights.size, fewest=_FEWEST))
    return found
