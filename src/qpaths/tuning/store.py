"""Tuned settings as a tree of arrays, for a file from which an interrupted call goes on."""

from typing import Any

from ..evaluation import Layout
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..results import NumEvaluations
from ..schedules import FixedSchedule
from .choose import with_delta
from .reference import FittedT, Reference
from .tune import Tuned, from_base


def to_tree(tuned: Tuned) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of tuned settings JSON can hold, and their arrays; the user's densities are in neither."""
    base = tuned.path.base
    notes = {
        "notes": list(tuned.notes),
        "warnings": list(tuned.warnings),
        "barrier": tuned.barrier,
        "num_evaluations": tuned.num_evaluations._asdict(),
        "share": base.share if isinstance(base, Reference) else None,
        "df": base.fitted.df if isinstance(base, Reference) else None,
    }
    arrays = {
        "betas": tuned.schedule.betas,
        "kernel": tuned.kernel.arrays,
        "delta": getattr(tuned.path, "delta", None),
        "fitted": [base.fitted.mean, base.fitted.factor, base.fitted.inverse] if isinstance(base, Reference) else None,
    }
    return notes, arrays


def from_tree(
    notes: dict[str, Any], arrays: dict[str, Any], path: AbstractPath[Any], kernel: AbstractKernel[Any], layout: Layout
) -> Tuned:
    """The settings again, around the same densities and kernel."""
    if arrays["fitted"] is not None:
        fitted = FittedT(notes["df"], *arrays["fitted"])
        path = from_base(path, Reference(fitted, path.base, notes["share"], layout))
    if arrays["delta"] is not None:
        path = with_delta(path, arrays["delta"])
    return Tuned(
        path,
        FixedSchedule(arrays["betas"]),
        FrozenKernel.from_arrays(kernel, arrays["kernel"], layout.dimension),
        notes["barrier"],
        tuple(notes["notes"]),
        tuple(notes["warnings"]),
        NumEvaluations(**notes["num_evaluations"]),
    )
