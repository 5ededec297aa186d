"""A recipe as a tree of arrays, for a file from which an interrupted call goes on."""

import dataclasses
from typing import Any

from ..cost import Cost
from ..evaluation import Layout
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..recipe import Recipe
from ..remarks import Remark
from ..schedules import FixedSchedule
from .compare import with_delta
from .for_population import from_base
from .reference import FittedT, Reference


def to_tree(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of a recipe JSON can hold, and its arrays; the user's densities are in neither."""
    base = recipe.path.base
    fitted = base.fitted if isinstance(base, Reference) else None
    assert isinstance(recipe.kernel, FrozenKernel)
    notes = {
        "notes": [note.as_dict() for note in recipe.notes],
        "findings": [finding.as_dict() for finding in recipe.findings],
        "barrier": recipe.barrier,
        "num_evaluations": dataclasses.asdict(recipe.num_evaluations),
        "share": None if fitted is None else base.share,
        "df": None if fitted is None else fitted.df,
    }
    arrays = {
        "betas": recipe.betas,
        "kernel": recipe.kernel.arrays,
        "delta": getattr(recipe.path, "delta", None),
        "fitted": None if fitted is None else [fitted.mean, fitted.factor, fitted.inverse],
    }
    return notes, arrays


def from_tree(
    notes: dict[str, Any], arrays: dict[str, Any], path: AbstractPath[Any], kernel: AbstractKernel[Any], layout: Layout
) -> Recipe:
    """The recipe again, around the same densities and kernel."""
    if arrays["fitted"] is not None:
        fitted = FittedT(notes["df"], *arrays["fitted"])
        path = from_base(path, Reference(fitted, path.base, notes["share"], layout))
    if arrays["delta"] is not None:
        path = with_delta(path, arrays["delta"])
    return Recipe(
        path,
        FixedSchedule(arrays["betas"]),
        FrozenKernel.from_arrays(kernel, arrays["kernel"], layout.dimension),
        notes["barrier"],
        tuple(map(Remark.from_dict, notes["notes"])),
        tuple(map(Remark.from_dict, notes["findings"])),
        Cost(**notes["num_evaluations"]),
    )
