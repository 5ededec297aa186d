"""Tuned settings as a tree of arrays, for a file from which an interrupted call goes on."""

from typing import Any

from ..evaluation import Layout
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..results import NumEvaluations
from ..schedules import FixedSchedule
from .candidates import from_base
from .choose import with_delta
from .maps import Component, TriangularMap
from .reference import Reference
from .tune import Tuned

_TERMS = ("center", "scale", "order", "means", "log_scales", "squares", "slopes")


def to_tree(tuned: Tuned) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of tuned settings JSON can hold, and their arrays; the user's densities are in neither."""
    base = tuned.path.base
    notes = {
        "notes": list(tuned.notes),
        "warnings": list(tuned.warnings),
        "barrier": tuned.barrier,
        "num_evaluations": tuned.num_evaluations._asdict(),
        "reference": _reference_notes(base) if isinstance(base, Reference) else None,
    }
    arrays = {
        "betas": tuned.schedule.betas,
        "kernel": tuned.kernel.arrays,
        "delta": getattr(tuned.path, "delta", None),
        "reference": _reference_arrays(base) if isinstance(base, Reference) else None,
    }
    return notes, arrays


def from_tree(
    notes: dict[str, Any], arrays: dict[str, Any], path: AbstractPath[Any], kernel: AbstractKernel[Any], layout: Layout
) -> Tuned:
    """The settings again, around the same densities and kernel."""
    if notes["reference"] is not None:
        path = from_base(path, _reference(notes["reference"], arrays["reference"], path.base, layout))
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


def _reference_notes(reference: Reference) -> dict[str, Any]:
    dfs = [component.df for component in reference.components]
    return {"share": reference.share, "dfs": dfs, "is_mapped": reference.is_mapped}


def _reference_arrays(reference: Reference) -> dict[str, Any]:
    maps = [{name: getattr(component.map, name) for name in _TERMS} for component in reference.components]
    return {"shares": reference.shares, "maps": maps}


def _reference(notes: dict[str, Any], arrays: dict[str, Any], base: Any, layout: Layout) -> Reference:
    maps = [TriangularMap.of(**terms) for terms in arrays["maps"]]
    components = tuple(Component(df, one) for df, one in zip(notes["dfs"], maps, strict=True))
    return Reference(components, arrays["shares"], base, notes["share"], layout, notes["is_mapped"])
