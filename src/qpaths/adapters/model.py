"""A model with named variables: what the adapters make of a prior or a whole model, and what `evidence` takes."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from ..core import Point, PRNGKey, PyTree, stack, to_host
from ..densities import Density
from ..remarks import Remark
from ..rows import AtMost, in_pieces
from .distributions import Values

_CHUNK = 4096
"""Draws that are transformed at once."""

Named = dict[str, Any]
"""Variables of a model by name, in their own units: a scale is positive, proportions sum to 1."""


@runtime_checkable
class Parts(Protocol):
    """Make up a model of another package: functions of unconstrained points, data, and shapes of the variables."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def data(self) -> Named | None: ...

    def log_prior(self, point: Named, /) -> Values: ...
    def log_likelihood(self, point: Named, data: Named | None = None, /) -> Values: ...
    def sample(self, key: PRNGKey, /) -> Named: ...
    def constrain(self, point: Named, /) -> Named: ...
    def unconstrain(self, named: Named, /) -> Named: ...
    def simulate(self, key: PRNGKey, point: Named, /) -> Named: ...
    def pointwise(self, point: Named, /) -> Named: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A prior and a likelihood over unconstrained points, and how these become the variables of the model.

    `qpaths.adapters.from_numpyro`, `from_pymc` and `from_prior` return one. Pass it to `qpaths.evidence` or
    `qpaths.evidence_from_draws`.

    Attributes:
        prior: The density of unconstrained points with its sampler; a point has one array for each name.
        log_likelihood: `log_likelihood(x, data)` at an unconstrained point, or `log_likelihood(x)` without data.
        data: What was observed, by name; None where the adapter cannot tell.
        constrain: The variables at an unconstrained point, with what is computed from them.
        unconstrain: The point for some variables: the inverse of `constrain`.
        variables: The names and shapes of the variables that `unconstrain` needs.
        simulate: `simulate(key, x)` draws data given a point; None where the model cannot.
        pointwise: The log likelihood of each observation at a point, by name; None where the model does not say.
        parts: The distributions of the prior by name; None where it has none.
        target: The unnormalized target, where it is evaluated in one piece and not as prior times likelihood.
        notes: Remarks on the model before it runs; they become part of the verdict.
        dims: The names of the axes of variables, for ArviZ.
        coords: The labels along these axes.

    [Your model, by name](your_model.md) lists what models may contain. To write an adapter of your own, return one of
    these.

    Examples:
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> own = qp.adapters.from_prior({"rate": qp.families.Gamma(2.0, 1.0)}, lambda p: -p["rate"])
        >>> own.variables, float(own.constrain({"rate": jnp.zeros(())})["rate"])  # log rate = 0
        ({'rate': ()}, 1.0)
    """

    prior: Density
    log_likelihood: Callable[..., Any]
    data: PyTree
    constrain: Callable[[Point], Named]
    unconstrain: Callable[[Named], Point]
    variables: dict[str, tuple[int, ...]]
    simulate: Callable[[Any, Point], Any] | None = None
    pointwise: Callable[[Point], Named] | None = None
    parts: dict[str, Any] | None = None
    target: Density | None = None
    notes: tuple[Remark, ...] = ()
    dims: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    coords: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(parts: "Parts", *, can_simulate: bool) -> "Model":
        """The model whose parts are attributes of an object, as NumPyro's and PyMC's are."""
        return Model(
            prior=Density(parts.log_prior, parts.sample),
            log_likelihood=parts.log_likelihood,
            data=parts.data,
            constrain=parts.constrain,
            unconstrain=parts.unconstrain,
            variables=parts.shapes,
            simulate=parts.simulate if can_simulate else None,
            pointwise=parts.pointwise,
        )

    def on_circles(self, periodic: Sequence[str | int]) -> "Model":
        """Return the model with parameters whose two bounds are the same place as angles; the evidence is the same."""
        from .circles import on_circles

        return on_circles(self, periodic)

    @property
    def observed(self) -> tuple[Any, ...]:
        """The data as a likelihood takes them: one argument or none."""
        return () if self.data is None else (self.data,)

    def named(self, points: Point) -> Named:
        """The variables at many points, which have a leading axis."""
        return self._map(self.constrain, points)

    def points(self, draws: Named) -> Point:
        """The unconstrained points of many draws of the variables."""
        return self._map(self.unconstrain, draws)

    def log_likelihoods(self, points: Point) -> Named | None:
        """The log likelihood of each observation at many points."""
        return None if self.pointwise is None else self._map(self.pointwise, points)

    def _map(self, function: Callable[[Any], PyTree], points: PyTree) -> PyTree:
        """A function of one point at many, compiled where the model is JAX."""
        points = jax.tree.map(np.asarray, points)
        if self.prior.backend == "numpy":
            leaves, structure = jax.tree.flatten(points)
            rows = (jax.tree.unflatten(structure, row) for row in zip(*leaves, strict=True))
            return stack([jax.tree.map(np.asarray, function(point)) for point in rows])
        program = jax.jit(jax.vmap(function))
        return in_pieces(lambda part: to_host(program(part)), points, AtMost(_CHUNK, "draws"))
