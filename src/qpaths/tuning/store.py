"""Tuned settings as a tree of arrays, for a file from which an interrupted call goes on."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Point
from ..algorithms import SMC
from ..families import MultivariateStudentT
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..results import NumEvaluations
from ..schedules import AdaptiveSchedule, FixedSchedule
from .choose import with_delta
from .reference import Reference
from .tune import Tuned


def to_tree(tuned: Tuned) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of tuned settings JSON can hold, and their arrays; the user's densities are in neither."""
    base = tuned.path.base
    notes = {
        "notes": list(tuned.notes),
        "warnings": list(tuned.warnings),
        "barrier": tuned.barrier,
        "num_evaluations": tuned.num_evaluations._asdict(),
    }
    arrays = {
        "betas": tuned.schedule.betas,
        "kernel_betas": tuned.kernel.betas,
        "params": jax.tree.leaves(tuned.kernel.params),
        "delta": getattr(tuned.path, "delta", None),
        "share": base.share if isinstance(base, Reference) else None,
        "fitted": [base.fitted.df, base.fitted.mean, base.fitted.scale_matrix] if isinstance(base, Reference) else None,
    }
    return notes, arrays


def from_tree(
    notes: dict[str, Any], arrays: dict[str, Any], path: AbstractPath[Any], kernel: AbstractKernel[Any], example: Point
) -> Tuned:
    """The settings again, around the same densities and kernel."""
    if arrays["fitted"] is not None:
        fitted = MultivariateStudentT(*(jnp.asarray(leaf) for leaf in arrays["fitted"]))
        path = eqx.tree_at(lambda p: p.base, path, Reference(fitted, path.base, jnp.asarray(arrays["share"]), example))
    if arrays["delta"] is not None:
        path = with_delta(path, jnp.asarray(arrays["delta"]))
    # Of an odd number of particles, whose kernel is fitted as a whole.
    template = jax.eval_shape(lambda: SMC(3, AdaptiveSchedule(), kernel).begin(path, key=jax.random.key(0))[1].params)
    params = jax.tree.unflatten(jax.tree.structure(template), [jnp.asarray(leaf) for leaf in arrays["params"]])
    return Tuned(
        path,
        FixedSchedule(arrays["betas"]),
        FrozenKernel(kernel, jnp.asarray(arrays["kernel_betas"]), params),
        notes["barrier"],
        tuple(notes["notes"]),
        tuple(notes["warnings"]),
        NumEvaluations(**notes["num_evaluations"]),
    )
