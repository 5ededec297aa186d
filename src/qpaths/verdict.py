"""What a person should think of an answer: what was chosen and why, what looks unreliable, and what to do about it."""

from typing import NamedTuple

import numpy as np

from .islands import FEW_SURVIVE, Balance, Islands
from .tuning import Tuned


class Finding(NamedTuple):
    """Something that looks unreliable, and what to do about it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}."


def findings(islands: Islands, tuned: Tuned, scores: Balance) -> list[Finding]:
    """What looks unreliable in a run with tuned settings."""
    found = [Finding(warning, "give a larger budget, or a base nearer to the target") for warning in tuned.warnings]
    found += _of_islands(islands)
    if scores.error > 0:
        what = f"the target's scores do not balance over the draws (by {scores.imbalance:.2f}; 0 for all of a target)"
        found.append(
            Finding(what, "part of it was not reached, the neck of a funnel perhaps; give it other parameters")
        )
    betas = islands.stats["beta"][0]
    acceptance = np.mean(islands.stats["acceptance"], axis=0)
    worst = int(np.argmin(np.nan_to_num(acceptance, nan=1.0)))  # nothing moves at the last beta
    if acceptance[worst] < (0.4 if tuned.kernel.with_slopes else 0.1):
        what = f"moves are rarely accepted ({acceptance[worst]:.0%} at beta = {betas[worst]:.3g})"
        found.append(Finding(what, "the scales of the target may differ from place to place; give it other parameters"))
    ancestors = np.sum(islands.stats["num_ancestors"], axis=0)
    if ancestors[-1] < 0.01 * islands.log_weights.size:
        what = f"all draws descend from {ancestors[-1]} of {islands.log_weights.size} first particles"
        found.append(Finding(what, "the moves hardly renew them; give a kernel with more steps, or a larger budget"))
    lengths = np.mean(islands.stats["length"], axis=0)
    worst = int(np.argmax(lengths))
    if lengths[worst] > FEW_SURVIVE:
        what = f"few particles survive the step to beta = {betas[worst]:.3g}"
        found.append(Finding(what, "the next distribution is too far away; a larger budget makes more steps"))
    return found


def _of_islands(islands: Islands) -> list[Finding]:
    lost = int(np.sum(~np.isfinite(islands.log_evidence)))
    if lost:
        what = f"{lost} of {islands.log_evidence.size} islands found no mass at all"
        return [Finding(what, "take a base nearer to the target")]
    if islands.disagreement > 0.999:
        what = "islands disagree by more than the errors that they report"
        return [Finding(what, "moves may not cross between parts of the target; give a larger budget, or more moves")]
    return []


def verdict(tuned: Tuned, ending: str, found: list[Finding], certificate: str = "", remark: str = "") -> str:
    """All of it as a few lines."""
    lines = [ending, *(f"chosen: {note}." for note in ((remark,) if remark else ()) + tuned.notes)]
    if certificate:
        lines.append(f"certificate: {certificate}.")
    lines += [f"beware: {finding}" for finding in found] or [
        "nothing looks unreliable: islands agree, moves are accepted."
    ]
    return "\n".join(lines)
