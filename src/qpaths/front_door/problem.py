"""The first step of `evidence`: a path from what the user gave, and the kernel that can follow it."""

from typing import Any, NamedTuple

from ..adapters.model import Model
from ..densities import forgiving_in, has_gradient
from ..kernels import HMC, AbstractKernel, RandomWalk
from ..paths import AbstractPath
from ..recipe import check_parts
from ..remarks import Finding, Note, Remark
from .endpoints import check_alone, model_path, named_model, path_given, with_blind_ends

_BLIND_STEPS = 10
"""Random-walk moves at each beta if there is no gradient."""


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
        for function in forgiving_in(path.base, path.target):
            function.reset()
        path, reasons = with_blind_ends(path)
        notes: tuple[Remark, ...] = ()
        if kernel is None:
            kernel, notes = _kernel_for(path, reasons)
        check_parts(kernel)
        _check_gradients(kernel, reasons)
        return Problem(path, kernel, reference, model, likelihood, data, notes)

    @property
    def faults(self) -> list[Remark]:
        """Findings about points at which functions of the user raised an error that was excused."""
        excused = forgiving_in(self.path.base, self.path.target)
        return [Finding.RAISED(num=f.num_failed, first=f.first) for f in excused if f.num_failed]


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
