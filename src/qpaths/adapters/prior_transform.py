"""Problems as nested samplers take them: a map from the unit cube to the parameters, and a log likelihood of these."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import AnyArray, PRNGKey, PyTree, QpathsError, QpathsTypeError, namespace, quiet
from ..densities import Density, ask
from .distributions import Source, Values
from .model import Model, Named

_TRIED, _ROUNDED = 8, 1e-3
"""Points inside the cube at which a transform is tried, and nats that rounding to 32 bits may change."""


def from_prior_transform(
    prior_transform: Any,
    log_likelihood: Callable[..., Any],
    *,
    num_parameters: int | None = None,
    names: Sequence[str] | None = None,
    vectorized: bool = False,
    periodic: Sequence[str | int] = (),
) -> Model:
    """Return the model of a problem that was written for dynesty, UltraNest or nautilus.

    The evidence is the mean of the likelihood over the cube. So a transform may map the cube in any way. It is called
    strictly inside the cube. Functions that JAX can trace get gradients, and NumPy functions are called as they are.

    Args:
        prior_transform: `prior_transform(u)` maps a point of the unit cube to the parameters. A `Prior` of nautilus or
            a `PriorDict` of bilby may stand here. Then the likelihood takes a dictionary, as these packages call it.
        log_likelihood: `log_likelihood(parameters)`.
        num_parameters: The dimension of the cube. Without names the parameters are called x0, x1, and so on.
        names: The names of the parameters, in place of their number.
        vectorized: Whether both functions take rows of points.
        periodic: Parameters, by name or position, for which u = 0 and u = 1 are the same.

    Returns:
        A `Model`, for `qpaths.evidence`.

    `qpaths.evidence` takes the same arguments. `unconstrain` is not available, because a transform has no inverse.

    Examples:
        >>> import numpy as np
        >>> own = from_prior_transform(lambda u: 10 * u - 5, lambda x: -0.5 * np.sum(x**2), names=["a", "b"])
        >>> {name: float(value) for name, value in own.constrain({"a": np.zeros(()), "b": np.zeros(())}).items()}
        {'a': 0.0, 'b': 0.0}
    """
    takes_names = False
    if hasattr(prior_transform, "unit_to_physical"):  # nautilus
        names, takes_names = list(prior_transform.keys), True
        transform = prior_transform.unit_to_physical
    elif hasattr(prior_transform, "rescale"):  # bilby
        names, takes_names = _free_names(prior_transform), True
        given, fixed = prior_transform, _fixed_values(prior_transform)

        def transform(u: np.ndarray) -> np.ndarray:
            return np.array(given.rescale(names, u), float)

        own_likelihood = log_likelihood
        log_likelihood = lambda named: own_likelihood(fixed | named)  # noqa: E731
    else:
        transform = prior_transform
    for name, part in (("prior_transform", transform), ("log_likelihood", log_likelihood)):
        if not callable(part):
            raise QpathsTypeError(f"`{name}` must be a function, got {part!r}.")
    cube = _Cube(transform, log_likelihood, _checked_names(num_parameters, names), vectorized, periodic, takes_names)
    return Model(
        prior=Density(cube.log_prior, cube.sample, backend=cube.backend, batched=cube.backend == "numpy"),
        log_likelihood=cube.log_likelihood,
        data=None,
        constrain=cube.constrain,
        unconstrain=cube.unconstrain,
        variables=dict.fromkeys(cube.names, ()),
        target=cube.target,
    )


def _free_names(prior: Any) -> list[str]:
    """Return the parameters of a `PriorDict` that are not fixed."""
    return [name for name in prior if not getattr(prior[name], "is_fixed", False)]


def _fixed_values(prior: Any) -> Named:
    return {name: float(prior[name].peak) for name in prior if getattr(prior[name], "is_fixed", False)}


def _checked_names(num_parameters: int | None, names: Sequence[str] | None) -> list[str]:
    """Return one name for each parameter."""
    if names is None and num_parameters is None:
        raise ValueError("`num_parameters` or `names` must be given with `prior_transform`: the cube has no dimension.")
    if names is None:
        if isinstance(num_parameters, bool) or not isinstance(num_parameters, int | np.integer) or num_parameters < 1:
            raise QpathsError(f"`num_parameters` must be a positive integer, got {num_parameters!r}.")
        return [f"x{i}" for i in range(num_parameters)]
    names = [str(name) for name in names]
    if num_parameters not in (None, len(names)):
        raise ValueError(f"`names` has {len(names)} names, and `num_parameters` is {num_parameters}: give one of them.")
    twice = [name for name in names if names.count(name) > 1]
    if twice or not names:
        what = f"{twice[0]!r} twice" if twice else "none"
        raise ValueError(f"`names` must have different names, one for each parameter, got {what}.")
    return names


class _Cube:
    """The cube in coordinates without bounds: u is the logistic function of a coordinate.

    A periodic parameter has two coordinates, normal ones, and u is the angle of this point of the plane.
    """

    def __init__(
        self,
        transform: Callable[..., Any],
        likelihood: Callable[..., Any],
        names: list[str],
        vectorized: bool,
        periodic: Sequence[str | int],
        takes_names: bool,
    ):
        self.transform, self.likelihood, self.names = transform, likelihood, names
        self.vectorized, self.takes_names = vectorized, takes_names
        self.circles = set()
        for one in periodic:
            if one not in names and not (isinstance(one, int) and -len(names) <= one < len(names)):
                raise ValueError(f"`periodic` has {one!r}, and the parameters are {', '.join(names)}.")
            self.circles.add(names[one] if isinstance(one, int) else one)
        self._try()
        self.backend: Any = "jax" if self._is_traceable() else "numpy"
        self.target = None
        if self.backend == "numpy":
            # One point at a time unless the functions take rows, so that an executor can share them out.
            self.target = Density(self._log_joint, backend="numpy", batched=vectorized)

    def _is_traceable(self) -> bool:
        """Return whether JAX can trace and differentiate both functions."""
        point = {name: jax.ShapeDtypeStruct(shape, float) for name, shape in self._shapes.items()}
        try:
            found = jax.eval_shape(jax.grad(lambda point: jnp.asarray(self.log_likelihood(point)).sum()), point)
        except Exception:
            return False
        # NumPy functions that JAX happens to trace keep 64 bits where 32 bits are not enough.
        middle = {name: np.full(shape, 0.5) for name, shape in self._shapes.items()}
        exact, rounded = (self.log_likelihood(jax.tree.map(of, middle)) for of in (np.asarray, jnp.asarray))
        return found is not None and not abs(float(exact) - float(rounded)) > _ROUNDED

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: (2,) if name in self.circles else () for name in self.names}

    @quiet()
    def _try(self) -> None:
        """Raise where the transform does not return finite parameters, or the likelihood not one number."""
        rows = np.random.default_rng(0).uniform(size=(_TRIED, len(self.names)))
        found = [self._called(self.transform, row.copy(), "prior_transform") for row in rows]
        for row, parameters in zip(rows, found, strict=True):
            if np.shape(parameters) != (len(self.names),):
                what = "None" if parameters is None else f"shape {np.shape(parameters)}"
                raise QpathsError(
                    f"`prior_transform` must return {len(self.names)} parameters for a point of the cube, got {what}: "
                    f"return an array that is as long as the point."
                )
            bad = np.flatnonzero(~np.isfinite(np.asarray(parameters, float)))
            if bad.size:
                raise QpathsError(
                    f"`prior_transform` returns {np.asarray(parameters)[bad[0]]} for `{self.names[bad[0]]}` at "
                    f"u = {np.round(row, 4).tolist()}, inside the cube: it must be finite there."
                )
        value = self._called(self.likelihood, self._taken(np.asarray(found[0])), "log_likelihood")
        if np.shape(value) not in ((), (1,)):
            raise QpathsError(
                f"`log_likelihood` must return one number for one point, got shape {np.shape(value)}: give "
                f"`vectorized=True` if it takes rows of points."
            )

    def _called(self, function: Callable[..., Any], given: Any, name: str) -> Any:
        """Return what a function returns for one point, also where it takes rows."""
        if not self.vectorized:
            try:
                return function(given)
            except Exception as error:
                raise QpathsError(f"`{name}` raised {type(error).__name__} inside the cube: {error}.") from error
        found = function(jax.tree.map(lambda leaf: leaf[None], given))
        return found if found is None else found[0]

    def _u(self, point: Named) -> AnyArray:
        """Return the point of the cube, strictly inside, for a point or for rows."""
        xp = namespace(point[self.names[0]])
        columns = []
        for name in self.names:
            x = point[name]
            angle = xp.arctan2(x[..., 1], x[..., 0]) / (2 * np.pi) % 1.0 if name in self.circles else None
            columns.append(1 / (1 + xp.exp(-x)) if angle is None else angle)
        u = xp.stack(columns, -1)
        eps = float(xp.finfo(u.dtype).eps)
        return xp.clip(u, eps**2, 1 - eps)

    def _taken(self, parameters: Any) -> Any:
        """Return parameters as the likelihood takes them."""
        if not self.takes_names:
            return parameters
        return {name: parameters[..., i] for i, name in enumerate(self.names)}

    def log_prior(self, point: Named) -> Values:
        """Return the log density of a point, or of rows: logistic, and normal for a circle."""
        xp = namespace(point[self.names[0]])
        total: Values = 0.0
        for name in self.names:
            x = point[name]
            if name in self.circles:
                total = total - 0.5 * xp.sum(x**2, -1) - np.log(2 * np.pi)
            else:
                total = total - xp.logaddexp(0.0, x) - xp.logaddexp(0.0, -x)
        return total

    def sample(self, source: Source) -> Named:
        """Draw a point, with a key of JAX or a generator of NumPy."""
        if self.backend == "numpy":
            return {
                name: np.asarray(source.normal(size=2) if shape else source.logistic())
                for name, shape in self._shapes.items()
            }
        return {name: _drawn(jax.random.fold_in(source, i), name in self.circles) for i, name in enumerate(self.names)}

    def log_likelihood(self, point: Named) -> Values:
        """Return the log likelihood at a point."""
        u = self._u(point)
        if not self.vectorized:
            return self.likelihood(self._taken(self.transform(u)))
        return self.likelihood(self._taken(self.transform(u[None])))[0]

    @quiet()
    def _log_joint(self, point: Named) -> Values:
        """Return the log density of the target of NumPy functions, at rows where they take these."""
        if not self.vectorized:
            return float(self.log_prior(point)) + ask(self.log_likelihood, "log_likelihood", point)
        values = np.asarray(self.likelihood(self._taken(self.transform(self._u(point)))), float)
        prior = np.asarray(self.log_prior(point))
        if values.shape != prior.shape:
            raise QpathsError(
                f"`log_likelihood` must return one number for each row with `vectorized=True`, got shape "
                f"{values.shape} for {prior.size} rows."
            )
        return prior + values

    def constrain(self, point: Named) -> Named:
        """Return the parameters by name."""
        u = self._u(point)
        parameters = self.transform(u[None])[0] if self.vectorized else self.transform(u)
        return {name: parameters[i] for i, name in enumerate(self.names)}

    def unconstrain(self, named: Named) -> PyTree:
        """Raise, since a transform has no inverse that is known."""
        raise QpathsError(
            "`prior_transform` gives no way back from parameters to the cube: give the prior as distributions by name."
        )


def _drawn(key: PRNGKey, is_circle: bool) -> AnyArray:
    return jax.random.normal(key, (2,)) if is_circle else jax.random.logistic(key)
