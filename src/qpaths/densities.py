"""Densities: the two ends of a path, and what a path returns in between.

A user gives a function, a `Density`, or any object with `log_prob` (and `sample`); `as_density` accepts all three.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .core import LogDensity, Point, PRNGKey, QpathsError, QpathsTypeError, Sampler, Scalar, replaced

if TYPE_CHECKING:
    Backend: TypeAlias = Literal["jax", "numpy"]
else:
    Backend: TypeAlias = str  # other words get an error of ours
"""The library that calls the functions of a density: JAX traces them, NumPy calls them with arrays."""


@runtime_checkable
class DensityLike(Protocol):
    """Describe what a path needs of an endpoint: `log_prob(x)`, one number for one point.

    An endpoint that can be sampled also has `sample(key)`, one exact draw from the normalized density. Endpoints are
    pytrees: their arrays can change without recompilation.

    Nothing checks that a base is normalized. A plain function of one point becomes a `Density` by itself where a path
    is made.

    See [Write a path](tutorials/own_path.md).

    Examples:
        >>> import qpaths as qp
        >>> isinstance(qp.Normal(0.0, 1.0), DensityLike)
        True
    """

    def log_prob(self, x: Point, /) -> Any: ...


class Density(eqx.Module):
    """A density given by functions of one point.

    Args:
        log_prob: `log_prob(x)` is the log density at one point, normalized or not; `-inf` where there is no mass.
        sample: `sample(key)` draws one point exactly. A base needs it, a target does not.
        backend: `"jax"` traces and compiles the functions. `"numpy"` calls them as they are, with NumPy arrays: an ODE
            solved by SciPy, a likelihood from PyTorch or a C library. `sample` then takes a `numpy.random.Generator`.
        batched: For NumPy: `log_prob` and `gradient` take an array (or a tree of arrays) with one row per point.
        gradient: For NumPy: the gradient of `log_prob`. Without it only kernels that need none can move points.

    A plain function is part of the compiled program, with the data that it closes over. A function that is a pytree
    (`jax.tree_util.Partial(f, data)`, an equinox module) can change its data without recompiling. NumPy densities run
    on the host only.

        prior = Density(lambda x: -0.5 * jnp.sum(x**2), lambda key: jax.random.normal(key, (2,)))

    [Densities that are not JAX](engine.md#densities-that-are-not-jax) has more on NumPy. Nothing checks here that a
    sampler matches its density: `qpaths.evidence` does.

    Examples:
        >>> import jax.numpy as jnp
        >>> prior = Density(lambda x: -0.5 * jnp.sum(x**2), lambda key: jax.random.normal(key, (2,)))
        >>> float(prior.log_prob(jnp.ones(2)))
        -1.0
    """

    log_prob: LogDensity
    sample: Sampler | None
    gradient: Callable[[Any], Any] | None
    backend: Backend = eqx.field(static=True)
    batched: bool = eqx.field(static=True)
    called: str | None = eqx.field(static=True)
    is_blind: bool = eqx.field(static=True)

    def __init__(
        self,
        log_prob: LogDensity,
        sample: Sampler | None = None,
        backend: Backend = "jax",
        batched: bool = False,
        gradient: Callable[[Point], Point] | None = None,
    ):
        if not callable(log_prob):
            raise QpathsTypeError(f"`log_prob` must be a function of one point, got {log_prob!r}.")
        if sample is not None and not callable(sample):
            raise QpathsTypeError(f"`sample` must be a function of a key, or None, got {sample!r}.")
        if gradient is not None and not callable(gradient):
            raise QpathsTypeError(f"`gradient` must be a function of a point, or None, got {gradient!r}.")
        check_backend(backend)
        if backend == "jax" and (batched or gradient is not None):
            raise ValueError(
                "`batched` and `gradient` are for `backend='numpy'`: JAX vectorizes and differentiates by itself."
            )
        self.log_prob = as_pytree(log_prob)
        self.sample = None if sample is None else as_pytree(sample)
        self.gradient = None if gradient is None else as_pytree(gradient)
        self.backend = backend
        self.batched = batched
        self.called = None
        self.is_blind = False


def called(density: Any, name: str) -> str:
    """The function behind a density, as its user knows it; `name` is that of the density: "base" or "target"."""
    return getattr(density, "called", None) or f"{name}.log_prob"


class PointError(QpathsError, RuntimeError):
    """Raised for what a NumPy function of the user raised, with the name of the function and the point."""


def ask(function: Callable[..., Any], name: str, x: Point, *arguments: Any) -> Any:
    """One number from a NumPy function of one point; what it raises gets its name and the point."""
    try:
        value = function(x, *arguments)
    except QpathsError:  # names what is wrong
        raise
    except Exception as error:
        raise PointError(f"`{name}` raised {type(error).__name__} at the point {as_text(x)}: {error}.") from error
    if value is None or np.size(value) != 1:
        got = "None" if value is None else f"shape {np.shape(value)}"
        raise QpathsError(
            f"`{name}` must return one number for one point, got {got}: sum over the coordinates and the data."
        )
    return check_real(name, value)


def as_text(x: Point) -> str:
    """A point for a sentence: `mu = 3.2, sigma = [0.1 2. ]`."""
    if not isinstance(x, dict):
        return str(x)
    return ", ".join(f"{name} = {np.array2string(np.asarray(value), precision=6)}" for name, value in x.items())


def check_backend(backend: Any) -> None:
    """Raise unless the backend is one of the two."""
    if backend not in ("jax", "numpy"):
        raise ValueError(f"`backend` must be 'jax' or 'numpy', got {backend!r}.")


def is_numpy(density: Any) -> bool:
    """Return whether a density is evaluated by NumPy functions."""
    return getattr(density, "backend", "jax") == "numpy"


def has_gradient(density: Any) -> bool:
    """Return whether a density has a gradient: JAX differentiates its own if it can, a NumPy density must bring one."""
    return density.gradient is not None if is_numpy(density) else not getattr(density, "is_blind", False)


def marked(density: DensityLike, **marks: Any) -> Density:
    """The same density with marks for errors and choices.

    Args:
        density: The density.
        **marks: `called`, the name of the function behind it; `is_blind`, where JAX cannot differentiate it.
    """
    if not isinstance(density, Density):
        density = Density(density.log_prob, getattr(density, "sample", None))
    return replaced(density, **marks)


def as_pytree(function: Any) -> Any:
    """A function that JAX sees as a leaf becomes one without leaves, so that plain `jax.jit` accepts the density.

    A function that is a pytree of arrays stays what it is. One with other leaves, as a network of Equinox that holds
    its activation function, keeps the arrays only.
    """
    leaves = jax.tree.leaves(function)
    if len(leaves) == 1 and leaves[0] is function:
        return jax.tree_util.Partial(function)
    if all(eqx.is_array_like(leaf) or isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        return function
    return _ArraysAndRest(*eqx.partition(function, eqx.is_array_like))


class _ArraysAndRest(eqx.Module):
    """A function whose leaves are arrays, and what else it holds."""

    arrays: Any
    rest: Any = eqx.field(static=True)

    def __call__(self, *arguments: Any) -> Any:
        return eqx.combine(self.arrays, self.rest)(*arguments)


def as_density(value: Any, name: str) -> DensityLike:
    """`value` itself if it has a `log_prob`, a `Density` around it if it is a function."""
    if hasattr(value, "log_prob"):
        # An object that jax does not know as a pytree is closed over, so that plain `jax.jit` accepts the path.
        leaves = jax.tree.leaves(value)
        is_leaf = len(leaves) == 1 and leaves[0] is value
        return Density(value.log_prob, getattr(value, "sample", None)) if is_leaf else value
    if callable(value):
        return Density(value)
    raise QpathsTypeError(
        f"`{name}` must be a density (an object with `log_prob`) or a function of one point, got {value!r}: "
        f"wrap it as `qpaths.Density(log_prob, sample=None)`."
    )


def endpoint(name: str) -> Callable[[Any], DensityLike]:
    """Converter for the field of a path that holds a density: a plain function becomes a `Density`.

        base: DensityLike = eqx.field(converter=endpoint("base"))

    Args:
        name: The name of the field, for errors.

    Returns:
        The converter. It raises a `TypeError` for what is neither a density nor a function.

    See [Write a path](tutorials/own_path.md).

    Examples:
        >>> converted = endpoint("base")(lambda x: -x)
        >>> type(converted).__name__
        'Density'
    """
    return lambda value: as_density(value, name)


def evaluate(density: DensityLike, x: Point, name: str) -> Scalar:
    """`density.log_prob(x)` for one point, checked to be one number.

    `name` is that of the density in errors: "base", "target", "log_prior".
    """
    function = name if name.startswith("log_") else called(density, name)
    if is_numpy(density):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x)):
            raise QpathsTypeError(
                f"`{name}` is a density with `backend='numpy'`, which JAX cannot trace: call this outside `jax.jit`, "
                f"`jax.vmap` and `jax.grad`."
            )
        x = jax.tree.map(lambda leaf: np.asarray(leaf)[None] if density.batched else np.asarray(leaf), x)  # type: ignore[attr-defined]
        return np.asarray(check_real(function, density.log_prob(x)), float).reshape(())
    value = jnp.asarray(check_real(function, density.log_prob(x)))
    if value.shape != ():
        shapes = jax.tree.map(jnp.shape, x)
        raise QpathsError(
            f"`{function}` must return one number for one point, got shape {value.shape} for a point of shape "
            f"{shapes}: sum over the coordinates, and pass one point at a time (`jax.vmap` makes a batch)."
        )
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)


def check_real(name: str, value: Any) -> Any:
    """Return what a function returned; raise if it is no number, or complex: the imaginary part would be dropped."""
    if (np.asarray(value).dtype if not hasattr(value, "dtype") else value.dtype).kind in "OUSMm":
        raise QpathsTypeError(
            f"`{name}` must return one number for one point, got {type(value).__name__}: return a float."
        )
    if np.iscomplexobj(value):
        raise QpathsTypeError(
            f"`{name}` must return a real number, got {np.dtype(getattr(value, 'dtype', complex))}: the logarithm or "
            f"root of a negative number may be the reason. Where the imaginary part is zero, return the real part "
            f"(`x.real`)."
        )
    return value


def sampler_of(density: DensityLike, name: str) -> Sampler:
    """The function that draws one point from `density`, or an error that says that there is none."""
    sample = getattr(density, "sample", None)
    if sample is None:
        raise ValueError(
            f"`{name}` has no `sample`, and one is needed here: give `qpaths.Density(log_prob, sample=...)`, "
            f"where `sample(key)` returns one exact draw."
        )
    return sample


def draw(density: DensityLike, key: PRNGKey, name: str) -> Point:
    """One point from `density`, or an error that says that it cannot be sampled."""
    return sampler_of(density, name)(key)
