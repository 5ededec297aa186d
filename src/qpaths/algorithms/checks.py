"""What is checked before and after a run, and how evaluations are counted."""

import functools
import numbers
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._checks import is_concrete
from .._types import Point, PRNGKey
from ..kernels import AbstractKernel
from ..kernels.base import FlatPath
from ..paths import AbstractPath, Reversed
from ..results import NumEvaluations, Status
from ..schedules import AbstractSchedule
from .base import Annealing, Fault


def check_num(name: str, num: int, smallest: int = 2) -> None:
    """Raise if a number of particles, chains or temperatures is too small, or no integer."""
    if not isinstance(num, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {num!r}: give one such as {max(smallest, 100)}.")
    if num < smallest:
        raise ValueError(f"`{name}` must be at least {smallest}, got {num}.")


def check_chunk_size(chunk_size: int | None) -> None:
    """Raise if no particle would be moved at once."""
    if chunk_size is not None:
        check_num("chunk_size", chunk_size, smallest=1)


def check_parts(kernel: Any, *schedules: Any) -> None:
    """Raise unless an algorithm was given a kernel and, where it takes one, a schedule."""
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"`kernel` must be a kernel such as `HMC()` or `RandomWalk()`, got {kernel!r}.")
    for schedule in schedules:
        if not isinstance(schedule, AbstractSchedule):
            raise TypeError(
                f"`schedule` must be a schedule such as `AdaptiveSchedule()` or `LinearSchedule(10)`, got {schedule!r}."
            )


def example_of(path: AbstractPath[Any], key: Any) -> Point:
    """A point of zeros, of the shape that the base draws; an error in words where the endpoints do not fit together."""
    if not isinstance(path, AbstractPath):
        raise TypeError(f"`path` must be a path such as `QPath(base, target, q=0.999)`, got {type(path).__name__}.")
    if not isinstance(key, jax.Array):
        raise TypeError(f"`key` must be a random key of JAX, got {key!r}: give `jax.random.key(0)`.")
    # Functions of their own, because a method that carries traced arrays cannot be a key of jax's caches.
    example = jax.eval_shape(lambda key: path.sample_base(key), jax.random.key(0))
    if not any(leaf.size for leaf in jax.tree.leaves(example)):
        raise ValueError(
            f"`base.sample` must return a point with at least one number, got {_describe(example)}: return an array, "
            f"or a tree of arrays, with the coordinates of one draw."
        )
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)):
        raise TypeError(
            f"`base.sample` must return floating-point numbers, got {_describe(example)}: kernels move every "
            f"coordinate continuously; return `x.astype(float)`, and keep what is discrete out of the point."
        )
    for name in ("base", "target"):
        density = getattr(path, name)
        try:
            jax.eval_shape(lambda x: density.log_prob(x), example)  # noqa: B023
        except Exception as error:
            raise ValueError(
                f"`{name}.log_prob` does not take a draw from the base, which is {_describe(example)}: {error}"
            ) from error
    jax.eval_shape(lambda x: path.features(x), example)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)


@functools.partial(jax.jit, static_argnames="num")
def draw_points(path: AbstractPath[Any], key: PRNGKey, num: int) -> Point:
    """Exact draws from the base, each with a key of its own; spread over the devices where there are several."""
    indices = jnp.arange(num)
    devices = jax.devices()
    if len(devices) > 1 and num % len(devices) == 0:
        sharding = NamedSharding(Mesh(devices, "particles"), PartitionSpec("particles"))
        indices = jax.lax.with_sharding_constraint(indices, sharding)
    return jax.vmap(lambda i: path.sample_base(jax.random.fold_in(key, i)))(indices)


def _describe(example: Any) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", example))


class CollapsedError(FloatingPointError):
    """No particle of a run has any weight: the target is -inf wherever they are."""


def raise_fault(annealing: Annealing, fault: Fault, beta: Any) -> None:
    """Raise a concrete fault in words; a traced one goes on as `result.status`."""
    raise_fault_on(annealing.flat, fault, beta)


def raise_fault_on(flat: FlatPath, fault: Fault, beta: Any) -> None:
    """As `raise_fault`, for runs that are not annealed step by step."""
    if not is_concrete(fault) or int(fault.status) == Status.OK:
        return
    status, path, point = Status(int(fault.status)), flat.path, flat.unravel(fault.position)
    first, last, stage = "base", "target", f"stage {int(fault.stage)}"
    if isinstance(path, Reversed):
        # In the words of the path that was reversed, which is the one that the user made.
        first, last, stage = last, first, f"{stage} of the reversed path"
        path, beta = path.path, 1 - beta
    where = f"at {stage} (beta = {float(beta):.6g})"
    if status == Status.COLLAPSED:
        raise CollapsedError(
            f"every particle has weight zero {where}: the {last} is -inf wherever the particles are, such as {point}. "
            f"Take a {first} that reaches the {last}, or smaller steps in beta."
        )
    values = {name: float(getattr(path, name).log_prob(point)) for name in (first, last)}
    bad = [name for name, value in values.items() if not value < jnp.inf]
    name = bad[0] if bad else first
    raise FloatingPointError(
        f"`{name}.log_prob` is {values[name]} {where} at the point {point}: {status.message}. "
        f"A log density must be a number, or -inf where there is no mass; mend it at that point."
    )


def count(
    kernel: AbstractKernel[Any], num_particles: int, num_steps: int, *, num_fits: int, chain_length: int = 1
) -> NumEvaluations:
    """Evaluations of a run: one at the start of each particle, then those of the kernel, fitted so often at a beta."""
    moves = num_particles // chain_length * max(1, chain_length - 1) * kernel.num_steps
    first, later = (kernel.fit_evaluations(num_particles, again) for again in (False, True))
    values = num_steps * moves * kernel.evaluations.values + num_fits * (first.values + num_steps * later.values)
    gradients = num_steps * moves * kernel.evaluations.gradients
    gradients += num_fits * (first.gradients + num_steps * later.gradients)
    if kernel.with_slopes:
        gradients += num_particles
    else:
        values += num_particles
    return NumEvaluations(values, values, gradients, gradients)
