"""The first step of `evidence`: a path from what the user gave, and the kernel that can follow it."""

import contextlib
import dataclasses
import operator
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..adapters import Model, from_prior, from_prior_transform
from ..after import Origin, digests, named_by
from ..core import (
    AnyArray,
    LogLikelihood,
    PointFaultError,
    PyTree,
    QpathsTypeError,
    Simulator,
    Stream,
    named_leaves,
    takes_two,
)
from ..densities import (
    Backend,
    Density,
    DensityLike,
    as_density,
    as_pytree,
    as_text,
    ask,
    check_backend,
    check_real,
    evaluate,
    has_gradient,
    is_numpy,
    marked,
)
from ..kernels import HMC, AbstractKernel, RandomWalk
from ..paths import AbstractPath, GeometricPath
from ..recipe import Recipe, check_parts
from ..references import Structure
from ..remarks import Finding, Note, Remark
from ..results import Kept, Result
from ..rows import Evaluator, Faults, Layout, describe, key_type, layout_of, shape_of
from .inputs import coordinate_names

_NUM_LOOKED = 128
"""Draws from the prior, one call of its compiled sampler, that are looked at for proportions."""
_FEW, _MOST_OF_PRIOR = 0.01, 0.5
"""Shares of points at which a density fails: up to the first it is a note, and from the second on the answer is wrong.
Of points around the final draws, it is wrong beyond both of the next: a share, and a multiple of that of the prior."""
_MOST_AROUND, _GROWTH = 0.05, 1.5
_BLIND_STEPS = 10
"""Random-walk moves at each beta if there is no gradient."""


def adapter_for(given: Any) -> str:
    """Return which adapter makes a model of what another package made, in a sentence; empty if it is none."""
    if hasattr(given, "free_RVs"):
        return " This is a PyMC model: give `qpaths.adapters.from_pymc(model)`."
    if isinstance(given, str | os.PathLike):
        return " A Stan program, as text or a path, becomes a model by `qpaths.adapters.from_stan(program, data)`."
    if hasattr(given, "backend") and hasattr(given, "response_component"):
        return " This is a bambi model: build it, and give `qpaths.adapters.from_pymc(model.backend.model)`."
    if callable(given) and not hasattr(given, "log_prob") and not isinstance(given, type):
        return " A function that is a NumPyro model becomes one by `qpaths.adapters.from_numpyro(model, *args)`."
    return ""


def named_model(
    base: Any,
    prior: Any,
    log_likelihood: LogLikelihood | None,
    data: PyTree,
    others: dict[str, Any],
) -> Model | None:
    """Return the model with named variables, given by itself or as a prior and a likelihood, or None.

    `others` are the arguments that say what such a model says, by name.
    """
    if isinstance(base, Model):
        others = others | {"prior": prior, "log_likelihood": log_likelihood, "data": data}
    elif prior is None:
        return None
    else:
        others = others | {"base": base}
    given = [name for name, part in others.items() if part is not None]
    if given:
        what = "a model" if isinstance(base, Model) else "`prior` and `log_likelihood`"
        raise ValueError(f"{what} is all that is needed, got also {', '.join(given)}: leave that out.")
    if isinstance(base, Model):
        return base
    if log_likelihood is None:
        raise ValueError("`log_likelihood` must be given with `prior`: a function of the variables by name.")
    return from_prior(prior, log_likelihood, data)


def of_cube(given: dict[str, Any], prior_transform: Any, cube: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call with the model of a prior transform, if there is one, as the base.

    `cube` are the arguments of `from_prior_transform` that say more about the transform.
    """
    said = [name for name, part in cube.items() if part is not None and part is not False and len(np.atleast_1d(part))]
    if prior_transform is None:
        if said == ["periodic"]:
            return given | dict.fromkeys(("prior", "log_likelihood", "data")) | {"base": _on_circles(given, cube)}
        if said:
            raise ValueError(f"`{said[0]}` belongs to `prior_transform`, which is not given.")
        return given
    if given["log_likelihood"] is None:
        raise ValueError("`log_likelihood` must be given with `prior_transform`: a function of the parameters.")
    others = [name for name, part in given.items() if part is not None and name != "log_likelihood"]
    if others:
        raise ValueError(f"`prior_transform` says what the prior is, got also {', '.join(others)}: leave that out.")
    model = from_prior_transform(prior_transform, given["log_likelihood"], **cube)
    return given | {"base": model, "log_likelihood": None}


def _on_circles(given: dict[str, Any], cube: dict[str, Any]) -> Model:
    """Return the model of a call with its periodic parameters on circles."""
    others = {name: given[name] for name in ("target", "log_prior", "sample_prior", "path")}
    model = named_model(given["base"], given["prior"], given["log_likelihood"], given["data"], others)
    if model is None:
        raise ValueError("`periodic` needs parameters with bounds and names: give a `prior`, or a model of an adapter.")
    return model.on_circles(cube["periodic"])


def structure_of(groups: Any, layout: Layout) -> Structure | None:
    """Return groups of coordinates from names of parameters; an error where these overlap or name nothing."""
    if groups is None:
        return None
    names, found = coordinate_names(layout), []
    for group in groups:
        if isinstance(group, str) or not isinstance(group, Sequence):
            raise QpathsTypeError(f"`groups` must hold lists of names such as [['u'], ['v']], got {group!r} in it.")
        own: list[int] = []
        for name in group:
            numbers = [j for j, one in enumerate(names) if one == name or one.startswith((f"{name}[", f"{name}."))]
            if not numbers:
                raise ValueError(f"`groups` has {name!r}, which is no parameter: these are {', '.join(names[:20])}.")
            own += numbers
        found.append(np.array(own))
    flat = [int(j) for group in found for j in group]
    twice = [names[j] for j in flat if flat.count(j) > 1]
    if twice or not flat:
        what = f"{twice[0]} twice" if twice else "no parameter"
        raise ValueError(f"`groups` must not overlap, and name some parameters, got {what}.")
    return Structure(tuple(found), is_given=True)


def one_of(**given: Any) -> Any:
    """Return the one argument that is given; an error where several are, which mean the same."""
    found = {name: part for name, part in given.items() if part is not None}
    if len(found) > 1:
        raise ValueError(f"`{'` and `'.join(found)}` are the same: give one of them.")
    return next(iter(found.values()), None)


def check_alone(path: Any, others: dict[str, Any]) -> None:
    """Raise unless a path is one, and nothing else says what it is."""
    if not isinstance(path, AbstractPath):
        raise QpathsTypeError(
            f"`path` must be a path such as `QPath(base, target, q=0.999)`, got {type(path).__name__}."
        )
    given = [name for name, part in others.items() if part is not None and name != "path"]
    if given:
        raise ValueError(f"`path` has its own endpoints, got also {', '.join(given)}: leave that out.")


def with_names(result: Result, model: Model | None, data: PyTree) -> Result:
    """Return the result with the variables of the model as samples, and with digests of the data."""
    result = dataclasses.replace(result, data=digests(data))
    if model is None:
        return result
    return dataclasses.replace(result, samples=named_by(model, result.samples), unconstrained=result.samples)


def model_path(
    base: Any,
    target: Any,
    log_prior: Any,
    log_likelihood: Any,
    sample_prior: Any,
    data: PyTree,
    backend: Backend,
) -> tuple[AbstractPath[Any], Any]:
    """Return the geometric path of the model, and its likelihood as a function of a point and data."""
    check_backend(backend)
    parts = {"log_prior": log_prior, "log_likelihood": log_likelihood, "sample_prior": sample_prior}
    given = [name for name, part in parts.items() if part is not None]
    if base is not None or target is not None:
        if base is None or target is None or given:
            given = [name for name, part in (("base", base), ("target", target)) if part is not None] + given
            raise ValueError(
                f"give either `base` and `target`, or `log_prior`, `log_likelihood` and `sample_prior`, got "
                f"{', '.join(given)}.{adapter_for(base)}"
            )
        if backend == "numpy":  # a density stays what it is
            base, target = (
                Density(end, backend="numpy") if callable(end) and not hasattr(end, "log_prob") else end
                for end in (base, target)
            )
        return GeometricPath(as_density(base, "base"), as_density(target, "target")), None
    missing = [name for name in parts if name not in given]
    if missing:
        raise ValueError(
            f"`{missing[0]}` must be given, got {', '.join(given) or 'nothing'}: see `help(qpaths.evidence)`."
        )
    if data is not None and not takes_two(log_likelihood):
        raise QpathsTypeError(
            "`log_likelihood` must take a point and the data, since `data` is given: log_likelihood(x, data)."
        )
    prior = Density(log_prior, sample_prior, backend=backend)
    if backend == "jax":
        check_functions(prior, log_likelihood, data)
    return path_given(prior, log_likelihood, data), log_likelihood


def check_functions(prior: Density, likelihood: LogLikelihood, data: PyTree) -> None:
    """Raise, with the name that the user knows it by, if one of the functions does not fit to the others."""
    example = shape_of(prior.sample, jax.ShapeDtypeStruct((), key_type()), "sample_prior", "a key")
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)):
        raise QpathsTypeError(
            f"`sample_prior` must return floating-point numbers, got {describe(example)}. If these are discrete "
            f"values, sum over them in the likelihood, since no continuous move can change them; if not, return "
            f"`x.astype(float)`."
        )
    arguments = () if data is None else (data,)
    functions = {"log_prior": prior.log_prob, "log_likelihood": lambda x: likelihood(x, *arguments)}
    for name, function in functions.items():
        shape_of(lambda x: evaluate(Density(function), x, name), example, name, "a draw from the prior")  # noqa: B023


def with_blind_ends(path: AbstractPath[Any]) -> tuple[AbstractPath[Any], dict[str, str]]:
    """Mark endpoints that JAX cannot differentiate; return also what JAX says about each of them."""
    reasons: dict[str, str] = {}
    if not path.is_pointwise:
        return path, reasons
    for name in ("base", "target"):
        end, reason = marked_if_blind(getattr(path, name), name, layout_of(path))
        if reason is not None:
            path = eqx.tree_at(operator.attrgetter(name), path, end)
            reasons[name] = reason
    return path, reasons


def marked_if_blind(density: DensityLike, name: str, layout: Layout) -> tuple[DensityLike, str | None]:
    """Mark a density that JAX cannot differentiate; return also what JAX says then."""
    if is_numpy(density):
        return density, None
    row = jax.ShapeDtypeStruct((layout.dimension,), layout.dtype)
    try:
        jax.eval_shape(jax.grad(lambda row: evaluate(density, layout.points(row), name)), row)
    except Exception as error:
        return marked(density, is_blind=True), first_sentence(error)
    return density, None


def first_sentence(error: Exception) -> str:
    """Return what an error says, without the advice and the addresses that follow."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".")


@contextlib.contextmanager
def in_units_of(model: Model | None) -> Iterator[None]:
    """Add the variables of a model to what is said to be wrong at some point."""
    try:
        yield
    except PointFaultError as fault:
        if model is None:
            raise
        rows = model.named(jax.tree.map(lambda leaf: np.asarray(leaf)[None], fault.point))
        variables = as_text({name: row[0] for name, row in rows.items()})
        if variables in str(fault):
            raise
        words = f"{fault} These are coordinates without bounds; the variables there are {variables}."
        raise PointFaultError(words, fault.point) from None


def check_not_on_simplex(evaluator: Evaluator, stream: Stream) -> None:
    """Raise where the numbers of a part of the point are positive and always have the same sum."""
    points = evaluator.layout.points(np.asarray(evaluator.draw(stream.fold(9), _NUM_LOOKED)))
    for name, leaf in named_leaves(points).items():
        sums = leaf.sum(axis=-1) if leaf.ndim > 1 and leaf.shape[-1] > 1 else leaf
        if leaf.ndim > 1 and (leaf >= 0).all() and np.ptp(sums) < 1e-4 * np.abs(sums).max():
            raise ValueError(
                f"the prior draws of `{name}` are proportions: they always sum to {float(sums.flat[0]):g}, and moves "
                f"would leave that plane. Give the prior as an object, which knows its space: "
                f"`prior={{'{name}': numpyro.distributions.Dirichlet(...)}}`."
            )


def path_of(model: Model) -> AbstractPath[Any]:
    """Return the path from the prior of a model to its target."""
    if model.target is None:
        return path_given(model.prior, model.log_likelihood, model.data)
    return GeometricPath(marked(model.prior, called="log_prior"), marked(model.target, called="log_likelihood"))


def path_given(prior: Density, likelihood: LogLikelihood, data: PyTree) -> AbstractPath[Any]:
    """Return the path from the prior to prior times likelihood; data are arrays of the target, not of the program."""
    likelihood = as_pytree(likelihood)
    arguments = (prior, likelihood) if data is None else (prior, likelihood, data)
    function = _log_joint if prior.backend == "jax" else _numpy_log_joint
    joint = Density(jax.tree_util.Partial(function, *arguments), backend=prior.backend, batched=prior.batched)
    # What is wrong with the prior is found first, so that other errors are those of the likelihood.
    return GeometricPath(marked(prior, called="log_prior"), marked(joint, called="log_likelihood"))


def _log_joint(prior: DensityLike, likelihood: LogLikelihood, *data_and_x: PyTree) -> AnyArray:
    *data, x = data_and_x
    log_prior = evaluate(prior, x, "log_prior")
    log_likelihood = evaluate(Density(lambda x: likelihood(x, *data)), x, "log_likelihood")
    # Outside the prior's support the likelihood need not be defined.
    return jnp.where(log_prior == -jnp.inf, -jnp.inf, log_prior + log_likelihood)


def _numpy_log_joint(prior: DensityLike, likelihood: LogLikelihood, *data_and_x: PyTree) -> AnyArray:
    *data, x = data_and_x
    log_prior = np.asarray(check_real("log_prior", prior.log_prob(x)), float)
    if log_prior.ndim == 0:
        return -np.inf if log_prior == -np.inf else log_prior + ask(likelihood, "log_likelihood", x, *data)
    # A prior that takes rows at once, with a likelihood that takes one point.
    joint = np.full(log_prior.shape, -np.inf)
    for row in np.flatnonzero(log_prior != -np.inf):
        point = jax.tree.map(lambda leaf: leaf[row], x)  # noqa: B023
        joint[row] = log_prior[row] + ask(likelihood, "log_likelihood", point, *data)
    return joint


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
    """Hold what a call of `evidence` is about."""

    path: AbstractPath[Any]
    kernel: AbstractKernel[Any]
    reference: bool
    """True if a reference may take the place of the base."""
    model: Model | None
    """The model with variables by name, if it is one."""
    likelihood: LogLikelihood | None
    data: PyTree
    notes: tuple[Remark, ...]
    structure: Structure | None = None
    """Groups of coordinates that the user gave."""

    @staticmethod
    def of(
        given: dict[str, Any],
        kernel: AbstractKernel[Any] | None,
        reference: bool,
        simulate: Simulator | None,
        backend: Backend,
    ) -> "Problem":
        """Return the problem that arguments of `evidence` describe; an error if they do not describe one."""
        base, log_likelihood, data, path = (given[name] for name in ("base", "log_likelihood", "data", "path"))
        likelihood = None
        others = {name: given[name] for name in ("target", "log_prior", "sample_prior", "path")}
        model = named_model(base, given["prior"], log_likelihood, data, others)
        if model is not None:
            likelihood, data = model.log_likelihood, model.data
            path = path_of(model)
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
        """Return remarks on rejected points: a note, or a finding where they are many.

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
    """Choose Hamiltonian Monte Carlo, or a random walk if an endpoint has no gradient; add a note on the choice.

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
