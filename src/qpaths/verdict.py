"""What `qpaths.evidence` says about its answer, as a whole."""

import dataclasses
from typing import Any

import numpy as np

from .arrays import is_traced
from .remarks import Finding, Level, Note, Remark, Stop


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What `qpaths.evidence` says about its answer. `str(verdict)` is the text.

    `level` is "sound" if there are no findings, and otherwise that of the worst finding, "doubtful" or "wrong". The
    command `qpaths evidence` ends with the exit code of the level. [The verdict](evidence.md#the-verdict) lists all
    checks, and what they cannot see.

    Attributes:
        stopped: Why the call ended.
        chosen: What was chosen, and why.
        findings: What looks unreliable, and what to do about it.

    Examples:
        >>> from qpaths.remarks import Finding, Stop
        >>> stopped = Stop.BUDGET(spent=900, budget=1000, pilots=100)
        >>> str(Verdict(stopped).level)
        'sound'
        >>> few = Finding.FEW_EFFECTIVE(total=200, ess=41.0, fewest=100)
        >>> str(Verdict(stopped, findings=(few,)).level)
        'doubtful'
    """

    stopped: Remark
    chosen: tuple[Remark, ...] = ()
    findings: tuple[Remark, ...] = ()

    @staticmethod
    def of(verdict: "Verdict | None", **numbers: Any) -> "Verdict | None":
        """Return a verdict that is "wrong" where one of some numbers is NaN or infinite, and as given otherwise.

        Every result passes its estimates and standard errors through here when it is made. Comparisons with NaN are
        false, so that no other check would see one. Inside a compiled program nothing is known of the numbers.
        """
        if is_traced(numbers) or (verdict is not None and verdict.level == Level.WRONG):
            return verdict
        bad = {name: value for name, value in numbers.items() if not np.isfinite(np.asarray(value, float)).all()}
        if not bad:
            return verdict
        name, value = next(iter(bad.items()))
        found = Finding.NOT_FINITE(name=name, value=str(np.asarray(value, float)))
        if verdict is None:
            return Verdict(Stop.ENDED(), findings=(found,))
        return dataclasses.replace(verdict, findings=(*verdict.findings, found))

    @property
    def level(self) -> Level:
        return max((f.kind.level for f in self.findings), key=list(Level).index, default=Level.SOUND)  # type: ignore[attr-defined]

    def __str__(self) -> str:
        lines = [f"{self.stopped}.", *(f"chosen: {remark}." for remark in self.chosen)]
        lines += [f"beware: {finding}." for finding in self.findings]
        if not self.findings:
            moved = all(remark.kind is not Note.WEIGHTS for remark in self.chosen)
            praise = "the islands agree" + (", and moves are accepted" if moved else "")
            praise = getattr(self.stopped.kind, "praise", praise)
            lines.append(f"nothing looks unreliable: {praise}.")
        lines.append(f"verdict: {self.level}.")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The records as JSON can hold them."""
        chosen, findings = ([remark.as_dict() for remark in part] for part in (self.chosen, self.findings))
        return {"stopped": self.stopped.as_dict(), "chosen": chosen, "findings": findings}

    @staticmethod
    def from_dict(record: dict[str, Any]) -> "Verdict":
        """The verdict that `as_dict` wrote."""
        chosen, findings = (tuple(map(Remark.from_dict, record[name])) for name in ("chosen", "findings"))
        return Verdict(Remark.from_dict(record["stopped"]), chosen, findings)
