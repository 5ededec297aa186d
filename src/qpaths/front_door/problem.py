"""The first step of `evidence`: a path from what the user gave, and the kernel that can follow it."""

from typing import Any, NamedTuple

import jax
import numpy as np

from ..adapters import Model
from ..after import Origin
from ..densities import as_text, has_gradient
from ..kernels import HMC, AbstractKernel, RandomWalk
from ..paths import AbstractPath
from ..recipe import Recipe, check_parts
from ..remarks import Finding, Note, Remark
from ..results import Kept
from ..rows import Faults, Layout
from .endpoints import check_alone, model_path, named_model, path_given, with_blind_ends

_FEW, _MOST_OF_PRIOR = 0.01, 0.5
"""Shares of points at which a density fails: up to the first it is a note, and from the second on the answer is wrong.
Of points around the final draws, it is wrong beyond both of the next: a share, and a multiple of that of the prior."""
_MOST_AROUND, _GROWTH = 0.05, 1.5
_BLIND_STEPS = 10
"""Random-walk moves at each beta if there is no gradient."""


def check_faults(faults: str) -> None:
    """Raise unless it is one of the two ways to treat points at which a density fails."""
    if faults not in ("reject", "raise"):
        raise ValueError(f"`faults` must be 'reject' or 'raise', got {faults!r}.")


def first_fault(faults: Faults, layout: Layout, model: Model | None) -> str:
    """Return where a density failed first, in the variables of the model."""
    assert faults.first is not None
    row, name, found = faults.first
    if found.startswith("`"):  # what was raised, which names the function
        return found.rstrip(".")
    points = layout.points(row[None])
    named = points if model is None else model.named(points)
    return f"`{name}` is {found} at the point {as_text(jax.tree.map(lambda leaf: np.asarray(leaf)[0], named))}"


class Problem(NamedTuple):
    """What a call of `evidence` is about."""

    path: AbstractPath[Any]
    kernel: AbstractKernel[Any]
    reference: bool
    """Whether a reference may take the place of the base."""
    model: Model | None
    """The model with variables by name, if it is one."""
    likelihood: Any
    data: Any
    notes: tuple[Remark, ...]

    @staticmethod
    def of(
        given: dict[str, Any], kernel: AbstractKernel[Any] | None, reference: bool, simulate: Any, backend: Any
    ) -> "Problem":
        """Return the problem that arguments of `evidence` describe; an error if they do not describe one."""
        base, log_likelihood, data, path = (given[name] for name in ("base", "log_likelihood", "data", "path"))
        likelihood = None
        others = {name: given[name] for name in ("target", "log_prior", "sample_prior", "path")}
        model = named_model(base, given["prior"], log_likelihood, data, others)
        if model is not None:
            likelihood, data = model.log_likelihood, model.data
            path = path_given(model.prior, likelihood, data)
        elif path is not None:
            check_alone(path, {name: part for name, part in given.items() if name != "prior"})
            reference = False
        else:
            parts = {name: part for name, part in given.items() if name not in ("prior", "path")}
            path, likelihood = model_path(**parts, backend=backend)
        if simulate is not None and (data is None or likelihood is None):
            raise ValueError("`simulate` needs `log_prior`, `log_likelihood(x, data)`, `sample_prior` and `data`.")
        path, reasons = with_blind_ends(path)
        notes: tuple[Remark, ...] = ()
        if kernel is None:
            kernel, notes = _kernel_for(path, reasons)
        check_parts(kernel)
        _check_gradients(kernel, reasons)
        return Problem(path, kernel, reference, model, likelihood, data, notes)

    def kept(self, recipe: Recipe | None = None) -> Kept:
        """Return the model for a result to keep, with what the run was made with."""
        return Kept(Origin(self.path, self.model, self.likelihood, self.data, recipe))

    def faults(self, faults: Faults | None, layout: Layout, before: float, after: float) -> list[Remark]:
        """Return what there is to say of rejected points: a note, or a finding where they are many.

        `before` is their share of the draws from the prior, `after` that of points around the final draws.
        """
        if faults is None or faults.first is None:
            return []
        what = first_fault(faults, layout, self.model)
        if before > _MOST_OF_PRIOR or after > max(_MOST_AROUND, _GROWTH * before):
            return [Finding.MANY_FAULTS(what=what, before=before, after=after)]
        if max(before, after) > _FEW:
            return [Finding.FAULTS(what=what, before=before, after=after)]
        return [Note.FAULTS(what=what, num=faults.num)]


def _kernel_for(path: AbstractPath[Any], reasons: dict[str, str]) -> tuple[AbstractKernel[Any], tuple[Remark, ...]]:
    """Hamiltonian Monte Carlo, or a random walk where an endpoint has no gradient; and a note on the choice.

    `reasons` say why JAX cannot differentiate its endpoints.
    """
    ends = {"base": path.base, "target": path.target}
    blind = [name for name, end in ends.items() if not has_gradient(end)]
    if not blind:
        return HMC(num_leapfrog=5), ()
    if reasons:
        note = Note.NOT_DIFFERENTIABLE(ends=" and ".join(reasons), reason=next(iter(reasons.values())))
    else:
        note = Note.NO_GRADIENT(ends=" and ".join(blind))
    return RandomWalk(_BLIND_STEPS), (note,)


def _check_gradients(kernel: AbstractKernel[Any], reasons: dict[str, str]) -> None:
    """Raise where a kernel needs gradients that JAX cannot compute."""
    if kernel.with_slopes and reasons:
        name, reason = next(iter(reasons.items()))
        raise ValueError(
            f"`{type(kernel).__name__}` needs gradients, and JAX cannot differentiate the {name} ({reason}): leave "
            f"`kernel` out, or give `kernel=qpaths.RandomWalk({_BLIND_STEPS})`."
        )
