"""A PyMC model as prior, likelihood and named variables, through its JAX backend."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import QpathsTypeError
from .distributions import refuse_discrete
from .model import Model, Named

_IMPROPER = ("flat", "halfflat")


def from_pymc(model: Any = None) -> Model:
    """A PyMC model for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    The prior is what the free variables say, the likelihood what the observed variables and potentials say. The
    result's samples are the free variables by name, in their own units, and the deterministics. Without an argument it
    is the model of the `with` block. PyTensor turns on 64 bits in JAX when it loads its JAX backend.

        result = qpaths.evidence(from_pymc(model), key=jax.random.key(0))

    Variables that cannot be handled are errors that name them: a flat prior, a discrete variable, the transform
    `ordered` and LKJ distributions, which PyMC does not normalize, and a distribution that PyTensor cannot compile for
    JAX.

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
    return Model.of(own, can_simulate=not own.model.potentials)


def _import_pymc() -> Any:
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

    def __init__(self, pymc: Any, model: Any):
        self.pymc = pymc
        self.model = pymc.modelcontext(model)
        if not isinstance(self.model, pymc.Model):
            raise QpathsTypeError(
                f"`model` must be a PyMC model, got {model!r}: give the object of `with pm.Model() as`."
            )
        self.free, observed = self.model.free_RVs, self.model.observed_RVs
        self._check(observed)
        self.values = self.model.value_vars
        self.data_inputs = [self._data_of(rv) for rv in observed]
        self.data = {rv.name: jnp.asarray(_numbers(self.model.rvs_to_values[rv])) for rv in observed} or None
        self._log_prior = self._jax(self.values, [self._logp(self.free)], "the prior")
        likelihood = [*observed, *self.model.potentials]
        self._log_likelihood = self._jax(
            [*self.values, *self.data_inputs], [self._with_data(self._logp(likelihood))], "the likelihood"
        )
        self._constrain = self._jax(self.values, self.model.unobserved_value_vars, "the variables")
        drawn = [self._forward(rv) for rv in self.free]
        self._sample, self.num_streams = self._sampler(drawn, self.free, [])
        example = jax.eval_shape(lambda: self.constrain(self.sample(jax.random.key(0))))
        self.shapes = {rv.name: tuple(example[rv.name].shape) for rv in self.free}

    def _check(self, observed: list[Any]) -> None:
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
            if "lkj" in kind.lower():
                raise ValueError(
                    f"the prior of `{rv.name}` is an LKJ distribution, whose density in PyMC does not integrate to 1: "
                    f"compute the matrix from partial correlations (`2 * pm.Beta(...) - 1`), or write the model in "
                    f"NumPyro (`dist.LKJCholesky`)."
                )
            if kind.lower() in _IMPROPER:
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

    def _logp(self, variables: list[Any]) -> Any:
        return self.model.logp(vars=variables)

    def _data_of(self, rv: Any) -> Any:
        """An input in place of the data of an observed variable."""
        return self.model.rvs_to_values[rv].type()

    def _with_data(self, graph: Any) -> Any:
        """A graph in which data are inputs."""
        from pytensor.graph.replace import clone_replace

        values = [self.model.rvs_to_values[rv] for rv in self.model.observed_RVs]
        return clone_replace([graph], dict(zip(values, self.data_inputs, strict=True)))[0]

    def _forward(self, rv: Any) -> Any:
        """The unconstrained value of a variable."""
        transform = self.model.rvs_to_transforms[rv]
        return rv if transform is None else transform.forward(rv, *rv.owner.inputs)

    def _jax(self, inputs: list[Any], outputs: list[Any], what: str) -> Any:
        """A graph as a function of JAX, or an error that names what JAX cannot compile."""
        try:
            return self.pymc.sampling.jax.get_jaxified_graph(inputs=inputs, outputs=outputs)
        except NotImplementedError as error:
            raise ValueError(
                f"PyTensor cannot compile {what} of the model for JAX ({error}): write that part of the model with "
                f"other operations, or give `evidence` a log density."
            ) from error

    def _sampler(self, outputs: list[Any], variables: list[Any], inputs: list[Any]) -> tuple[Any, int]:
        """Random draws as a function of keys, one for each stream of random numbers in the graph."""
        from pymc.pytensorf import find_rng_nodes
        from pytensor.graph.replace import clone_replace

        streams = find_rng_nodes(outputs)
        fresh = [stream.type() for stream in streams]
        graphs = clone_replace(outputs, dict(zip(streams, fresh, strict=True)))
        names = ", ".join(variable.name for variable in variables)
        return self._jax([*fresh, *inputs], graphs, f"draws of {names}"), len(streams)

    def sample(self, key: Any) -> Named:
        return self._named(self._sample(*_streams(key, self.num_streams)))

    def _named(self, values: Any) -> Named:
        return {rv.name: jnp.asarray(value) for rv, value in zip(self.free, values, strict=True)}

    def _list(self, point: Named) -> list[Any]:
        return [point[rv.name] for rv in self.free]

    def log_prior(self, point: Named) -> Any:
        return self._log_prior(*self._list(point))[0]

    def log_likelihood(self, point: Named, data: Named | None = None) -> Any:
        return self._log_likelihood(*self._list(point), *self._observed(data))[0]

    def _observed(self, data: Named | None) -> list[Any]:
        found = self.data if data is None else data
        return [] if found is None else [found[rv.name] for rv in self.model.observed_RVs]

    def constrain(self, point: Named) -> Named:
        names = [variable.name for variable in self.model.unobserved_value_vars]
        found = dict(zip(names, self._constrain(*self._list(point)), strict=True))
        hidden = {value.name for value in self.values} - {rv.name for rv in self.free}
        return {name: jnp.asarray(value) for name, value in found.items() if name not in hidden}

    @property
    def _placeholders(self) -> list[Any]:
        """Inputs in place of the free variables, in their own units."""
        return [rv.type(name=rv.name) for rv in self.free]

    def unconstrain(self, named: Named) -> Named:
        from pytensor.graph.replace import clone_replace

        places = self._placeholders
        values = [self._forward(rv) for rv in self.free]
        graphs = clone_replace(values, dict(zip(self.free, places, strict=True)))
        return self._named(self._jax(places, graphs, "the transforms")(*self._list(named)))

    def pointwise(self, point: Named) -> Named:
        observed = self.model.observed_RVs
        terms = self.model.logp(vars=observed, sum=False)
        found = self._jax(self.values, terms, "the likelihood")(*self._list(point))
        return {rv.name: jnp.asarray(value) for rv, value in zip(observed, found, strict=True)}

    def simulate(self, key: Any, point: Named) -> Named:
        from pytensor.graph.replace import clone_replace

        observed, places = self.model.observed_RVs, self._placeholders
        graphs = clone_replace(observed, dict(zip(self.free, places, strict=True)))
        draw, num = self._sampler(graphs, observed, places)
        named = self.constrain(point)
        found = draw(*_streams(key, num), *(named[rv.name] for rv in self.free))
        return {rv.name: jnp.asarray(value) for rv, value in zip(observed, found, strict=True)}


def _streams(key: Any, num: int) -> list[Any]:
    """Keys as PyTensor's JAX functions take them."""
    return [{"jax_state": jax.random.key_data(one)} for one in jax.random.split(key, num)]


def _numbers(value: Any) -> np.ndarray:
    """The numbers of a constant, of shared data, or of an expression of them."""
    if hasattr(value, "data"):
        return np.asarray(value.data)
    return np.asarray(value.get_value() if hasattr(value, "get_value") else value.eval())
