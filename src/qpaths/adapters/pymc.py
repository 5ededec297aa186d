"""A PyMC model as prior, likelihood and named variables, through its JAX backend."""

import dataclasses
import os
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..core import AnyArray, PRNGKey, PyTree, QpathsTypeError
from .distributions import Bounded, Values, refuse_discrete
from .model import Model, Named

Graph: TypeAlias = Any
"""A model or a variable of PyMC, or an expression of PyTensor."""
Compiled: TypeAlias = Callable[..., Any]
"""A graph as a function of JAX."""

_CIRCLE = Bounded(-np.pi, np.pi)
"""Angles: PyMC's own transform wraps all numbers around the circle, where a density is periodic and has no integral."""
_IMPROPER = ("flat", "halfflat")


def from_pymc(model: Any = None) -> Model:
    """A PyMC model for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    The prior is what the free variables say, the likelihood what the observed variables and potentials say. The
    result's samples are the free variables by name, in their own units, and the deterministics. Without an argument it
    is the model of the `with` block. PyTensor turns on 64 bits in JAX when it loads its JAX backend.

        result = qpaths.evidence(from_pymc(model), key=jax.random.key(0))

    What PyTensor cannot compile for JAX is drawn and evaluated by PyMC itself, which is slower. Variables that cannot
    be handled are errors that name them: a flat prior, a discrete variable, the transform `ordered` and LKJ
    distributions, which PyMC does not normalize, and a Wishart distribution.

    Args:
        model: A PyMC model; by default that of the `with` block.

    Returns:
        A `Model`, for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    See [PyMC](your_model.md#pymc).

    Examples:
        >>> import jax.numpy as jnp
        >>> import pymc as pm
        >>> with pm.Model() as model:
        ...     mu = pm.Normal("mu", 0.0, 1.0)
        ...     observed = pm.Normal("y", mu, 1.0, observed=[0.3])
        >>> own = from_pymc(model)
        >>> round(float(own.log_likelihood({"mu": jnp.zeros(())}, own.data)), 3)  # at mu = 0
        -0.964
    """
    own = _Graphs(_import_pymc(), model)
    made = Model.of(own, can_simulate=not own.model.potentials)
    dims = {name: tuple(map(str, axes)) for name, axes in own.model.named_vars_to_dims.items() if None not in axes}
    coords = {name: list(labels) for name, labels in own.model.coords.items() if labels is not None}
    return dataclasses.replace(made, dims=dims, coords=coords)


def _import_pymc() -> ModuleType:
    """PyMC with its JAX backend, or an error that says how to install it."""
    before = os.environ.get("XLA_FLAGS")
    try:
        import pymc
        import pymc.sampling.jax  # registers what JAX needs of PyMC's operations
    except ImportError as error:
        raise ImportError("`from_pymc` needs PyMC: pip install 'qpaths[pymc]'.") from error
    finally:
        # PyMC asks for a hundred devices, which JAX and all processes that start later would have.
        os.environ.pop("XLA_FLAGS", None)
        os.environ.update({} if before is None else {"XLA_FLAGS": before})
    return pymc


class _Graphs:
    """The graphs of a model, each compiled to a function of JAX."""

    def __init__(self, pymc: ModuleType, model: Graph):
        self.pymc = pymc
        self.model = pymc.modelcontext(model)
        if not isinstance(self.model, pymc.Model):
            raise QpathsTypeError(
                f"`model` must be a PyMC model, got {model!r}: give the object of `with pm.Model() as`."
            )
        from pytensor.graph.replace import clone_replace

        self.free, observed = self.model.free_RVs, self.model.observed_RVs
        self._check(observed)
        self.values = self.model.value_vars
        transforms = self.model.rvs_to_transforms
        self.circles = [rv.name for rv in self.free if type(transforms[rv]).__name__ == "CircularTransform"]
        given = [self.model.rvs_to_values[rv] for rv in observed]
        self.data_inputs = [value.type() for value in given]
        observed_as_inputs = dict(zip(given, self.data_inputs, strict=True))
        self.data = {rv.name: jnp.asarray(_numbers(self.model.rvs_to_values[rv])) for rv in observed} or None
        self._log_prior = self._jax(self.values, [self._logp(self.free)])
        likelihood = [*observed, *self.model.potentials]
        self._log_likelihood = self._jax(
            [*self.values, *self.data_inputs], [clone_replace([self._logp(likelihood)], observed_as_inputs)[0]]
        )
        self._constrain = self._jax(self.values, self.model.unobserved_value_vars)
        drawn = [self._forward(rv) for rv in self.free]
        self._sample, self.num_streams = self._sampler(drawn, [])
        example = jax.eval_shape(lambda: self.constrain(self.sample(jax.random.key(0))))
        self.shapes = {rv.name: tuple(example[rv.name].shape) for rv in self.free}

    def _check(self, observed: list[Graph]) -> None:
        """Raise where the model has no evidence, or a variable that cannot be handled."""
        if not self.free:
            raise ValueError("the model has no free variable, so its evidence is its likelihood: nothing to integrate.")
        if not observed and not self.model.potentials:
            names = ", ".join(rv.name for rv in self.free)
            raise ValueError(
                f"the model has no observed variable, only {names}: give `observed=...` to the variable of the data."
            )
        for rv in self.free:
            kind = str(getattr(rv.owner.op, "name", None) or type(rv.owner.op).__name__)
            if not rv.type.dtype.startswith("float"):
                raise refuse_discrete(rv.name, kind)
            transform = self.model.rvs_to_transforms[rv]
            if "ordered" in type(transform).__name__.lower():
                raise ValueError(
                    f"the prior of `{rv.name}` has the transform `ordered`, which cuts the distribution without "
                    f"normalizing it: compute an ordered vector from positive steps (`pt.cumsum`) in a deterministic."
                )
            if "wishart" in kind.lower():
                raise ValueError(
                    f"the prior of `{rv.name}` is a Wishart distribution, which PyMC moves out of the positive "
                    f"definite matrices: give its Cholesky factor (`pm.LKJCholeskyCov`), or write the model in NumPyro."
                )
            if "lkj" in kind.lower():
                raise ValueError(
                    f"the prior of `{rv.name}` is an LKJ distribution, whose density in PyMC does not integrate to 1: "
                    f"compute the matrix from partial correlations (`2 * pm.Beta(...) - 1`), or write the model in "
                    f"NumPyro (`dist.LKJCholesky`)."
                )
            if kind.lower().replace("_", "") in _IMPROPER:
                raise ValueError(
                    f"the prior of `{rv.name}` is improper ({kind}), so the evidence is not defined: give one that "
                    f"integrates to 1, such as `pm.Normal(0, 100)`."
                )
        for rv in observed:
            value = _numbers(self.model.rvs_to_values[rv])
            if np.issubdtype(value.dtype, np.floating) and (num := int(np.isnan(value).sum())) > 0:
                raise ValueError(
                    f"the observed variable `{rv.name}` has {num} NaN among {value.size} values: leave the missing "
                    f"ones out, or give a masked array, which PyMC fills in."
                )

    def _logp(self, variables: list[Graph]) -> Graph:
        return self.model.logp(vars=variables)

    def _forward(self, rv: Graph) -> Graph:
        """The unconstrained value of a variable."""
        transform = self.model.rvs_to_transforms[rv]
        return rv if transform is None or rv.name in self.circles else transform.forward(rv, *rv.owner.inputs)

    def _jax(self, inputs: list[Graph], outputs: list[Graph]) -> Compiled:
        """Return a graph as a function of JAX."""
        try:
            return self.pymc.sampling.jax.get_jaxified_graph(inputs=inputs, outputs=outputs)
        except NotImplementedError:  # an operation that JAX does not have
            return _on_host(inputs, outputs)

    def _sampler(self, outputs: list[Graph], inputs: list[Graph]) -> tuple[Compiled, int]:
        """Random draws as a function of keys, one for each stream of random numbers in the graph."""
        from pymc.pytensorf import find_rng_nodes
        from pytensor.graph.replace import clone_replace

        streams = find_rng_nodes(outputs)
        fresh = [stream.type() for stream in streams]
        graphs = clone_replace(outputs, dict(zip(streams, fresh, strict=True)))
        compiled = self._jax([*fresh, *inputs], graphs)
        arguments = [
            *_streams(jax.random.key(0), len(streams)),
            *(jax.ShapeDtypeStruct(one.type.shape, one.type.dtype) for one in inputs),
        ]
        try:
            jax.eval_shape(compiled, *arguments)
        except NotImplementedError:  # a distribution that PyTensor does not draw with JAX
            compiled = _on_host([*fresh, *inputs], graphs)
            try:
                jax.eval_shape(compiled, *arguments)
            except NotImplementedError as error:
                raise ValueError(
                    f"PyMC cannot draw from a distribution of the model: give `random=` to the `pm.CustomDist`. PyMC "
                    f"says: {str(error).splitlines()[0]}"
                ) from error
        return compiled, len(streams)

    def sample(self, key: PRNGKey) -> Named:
        return self._named(self._sample(*_streams(key, self.num_streams)))

    def _named(self, values: Iterable[Values]) -> Named:
        named = {rv.name: jnp.asarray(value) for rv, value in zip(self.free, values, strict=True)}
        return {name: _CIRCLE.inv(value) if name in self.circles else value for name, value in named.items()}

    def _list(self, point: Named) -> list[Values]:
        return [_CIRCLE(point[rv.name]) if rv.name in self.circles else point[rv.name] for rv in self.free]

    def log_prior(self, point: Named) -> Values:
        total = self._log_prior(*self._list(point))[0]
        jacobians = (_CIRCLE.log_abs_det_jacobian(point[name], point[name]) for name in self.circles)
        return sum(map(jnp.sum, jacobians), total)

    def log_likelihood(self, point: Named, data: Named | None = None) -> Values:
        found = (self.data if data is None else data) or {}
        return self._log_likelihood(*self._list(point), *(found[rv.name] for rv in self.model.observed_RVs))[0]

    def constrain(self, point: Named) -> Named:
        names = [variable.name for variable in self.model.unobserved_value_vars]
        found = dict(zip(names, self._constrain(*self._list(point)), strict=True))
        hidden = {value.name for value in self.values} - {rv.name for rv in self.free}
        return {name: jnp.asarray(value) for name, value in found.items() if name not in hidden}

    @property
    def _placeholders(self) -> list[Graph]:
        """Inputs in place of the free variables, in their own units."""
        return [rv.type(name=rv.name) for rv in self.free]

    def unconstrain(self, named: Named) -> Named:
        from pytensor.graph.replace import clone_replace

        places = self._placeholders
        values = [self._forward(rv) for rv in self.free]
        graphs = clone_replace(values, dict(zip(self.free, places, strict=True)))
        return self._named(self._jax(places, graphs)(*(named[rv.name] for rv in self.free)))

    def pointwise(self, point: Named) -> Named:
        observed = self.model.observed_RVs
        terms = self.model.logp(vars=observed, sum=False)
        found = self._jax(self.values, terms)(*self._list(point))
        return {rv.name: jnp.asarray(value) for rv, value in zip(observed, found, strict=True)}

    def simulate(self, key: PRNGKey, point: Named) -> Named:
        from pytensor.graph.replace import clone_replace

        observed, places = self.model.observed_RVs, self._placeholders
        graphs = clone_replace(observed, dict(zip(self.free, places, strict=True)))
        draw, num = self._sampler(graphs, places)
        named = self.constrain(point)
        found = draw(*_streams(key, num), *(named[rv.name] for rv in self.free))
        return {rv.name: jnp.asarray(value) for rv, value in zip(observed, found, strict=True)}


def _streams(key: PRNGKey, num: int) -> list[dict[str, AnyArray]]:
    """Keys as PyTensor's JAX functions take them."""
    return [{"jax_state": jax.random.key_data(one)} for one in jax.random.split(key, num)]


def _on_host(inputs: list[Graph], outputs: list[Graph]) -> Compiled:
    """Return a graph that JAX cannot compile as a function of JAX that calls what PyTensor compiles.

    Streams of random numbers among the inputs become generators of NumPy, made from keys. A graph with one number as
    output has its gradient too, in reverse mode, if PyTensor knows it.
    """
    from pytensor.compile.function import function as compiled
    from pytensor.gradient import NullTypeGradError, grad

    def calls(graphs: list[Graph]) -> Compiled:
        function = compiled(inputs, graphs, on_unused_input="ignore")
        found: list[Any] = []

        def call(*arguments: np.ndarray) -> list[np.ndarray]:
            given = [
                np.random.default_rng(np.asarray(one).tolist()) if _is_stream(own) else np.asarray(one, own.type.dtype)
                for own, one in zip(inputs, arguments, strict=True)
            ]
            return [np.asarray(value) for value in function(*given)]

        def traced(*arguments: PyTree) -> list[AnyArray]:
            given = [one["jax_state"] if isinstance(one, dict) else one for one in arguments]
            if not found:  # a graph does not always know the shapes of its outputs
                values = call(*(np.zeros(np.shape(one), int) for one in given))
                found.extend(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in values)
            return jax.pure_callback(call, found, *given, vmap_method="sequential")

        return traced

    value = calls(outputs)
    if len(outputs) != 1 or outputs[0].type.shape or any(map(_is_stream, inputs)):
        return value
    moved = [one for one in inputs if one.type.dtype.startswith("float")]
    try:
        gradients: Graph = grad(outputs[0], moved, disconnected_inputs="ignore")
        slopes = calls([outputs[0], *gradients])
    except (NotImplementedError, NullTypeGradError):
        return value
    differentiable = jax.custom_vjp(lambda *given: value(*given)[0])

    def backward(own: list[AnyArray], outer: AnyArray) -> tuple[AnyArray | None, ...]:
        by_input = dict(zip(moved, own, strict=True))
        return tuple(outer * by_input[one] if one in by_input else None for one in inputs)

    def forward(*given: AnyArray) -> tuple[AnyArray, list[AnyArray]]:
        first, *rest = slopes(*given)
        return first, rest

    differentiable.defvjp(forward, backward)
    return lambda *given: [differentiable(*given)]


def _is_stream(graph: Graph) -> bool:
    return not hasattr(graph.type, "dtype")


def _numbers(value: Graph) -> np.ndarray:
    """The numbers of a constant, of shared data, or of an expression of them."""
    if hasattr(value, "data"):
        return np.asarray(value.data)
    return np.asarray(value.get_value() if hasattr(value, "get_value") else value.eval())
