"""A recipe for annealed chains of a fixed number of gradients, shared by one problem or many."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..core import Cost, RandomKey, check_num
from ..densities import as_pytree
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath, Ordered
from ..recipe import Recipe
from ..remarks import Note, Remark
from ..rows import stream_for
from . import shares
from .chain_measure import Candidate, Measured, PathOf, Problems
from .chain_search import Search, num_pilot_gradients, rough_candidate, search_chains
from .compare import with_delta
from .for_population import tune_population

_START_EFFORT = 8
"""Evaluations for the start of a single problem, in units of the gradients of all its chains."""


class Start(NamedTuple):
    """Hold where the search begins: the kernel, whether a reference may take the place of the base, and a q to keep."""

    kernel: AbstractKernel[Any] | None = None
    reference: bool = True
    q: float | None = None


def tune_chains(
    path: Any,
    *,
    key: RandomKey,
    num_gradients: int,
    num_chains: int = 10,
    start: Start | None = None,
    search: Search | None = None,
    problems: Any = None,
    target_samples: Any = None,
) -> Recipe:
    """Choose q, schedule and HMC for chains of `num_gradients` gradients each (AIS, BDMC). `qpaths.tune` calls it.

    The split between distributions and leapfrog steps, the share of the momentum that is kept, the spread of the step
    sizes, the acceptance rate and q are chosen by what such chains reach.

    Args:
        path: A path; with `problems` a function that makes the path of one of them.
        key: The key of the pilots.
        num_gradients: Gradients of each chain.
        num_chains: Chains of the run, whose budget the pilots have. A few problems can represent many: it is then the
            number of all chains of the run divided by the number of problems given.
        start: The kernel to begin with, whether a reference may take the place of the base, and a q to keep.
        search: What to try.
        problems: Many problems that share the recipe: a tree of arrays with a leading axis.
        target_samples: Exact draws from the targets, one for each problem, as simulated data have. The schedule is then
            equal in the forward-reverse discrepancy.

    Returns:
        A `Recipe` with everything frozen. See [Tune once for all](tutorials/decoders.md#tune-once-for-all). Report
        other problems than those that it was tuned on.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> search = Search(leapfrogs=(2,), persistences=(), spreads=(), deltas=())  # nothing but step sizes and betas
        >>> options = {"num_gradients": 40, "num_chains": 4, "start": Start(reference=False, q=1.0), "search": search}
        >>> recipe = tune_chains(path, key=jax.random.key(0), **options)
        >>> recipe.schedule.betas.size  # 20 steps of 2 leapfrog steps each
        21
    """
    check_num("num_chains", num_chains, smallest=1)
    given = Start() if start is None else start
    kernel = _checked_kernel(given.kernel, num_gradients, many=problems is not None)
    if problems is not None and (isinstance(path, AbstractPath) or not callable(path)):
        raise TypeError(
            f"`path` must be a function that makes the path of one of the `problems`, got {type(path).__name__}: "
            f"give `lambda problem: QPath(...)`."
        )
    start_stream, stream = stream_for(key, path, problems, target_samples, pilots=True).split(2)
    group = Problems(problems, target_samples, 1)
    before = None
    if problems is None:
        budget = _START_EFFORT * num_chains * num_gradients
        before = tune_population(path, key=start_stream, budget=budget, kernel=kernel, reference=given.reference)
        first = Candidate.of(before)
    else:
        first = rough_candidate(path, group, kernel)
    search = _allowed(Search() if search is None else search, first, group)
    if given.q is not None:
        first = first.along(first.betas, first.kernel, 1 - given.q)
    allowed = shares.PILOTS * group.num * num_chains * num_gradients * group.num_directions
    made = num_pilot_gradients(first, num_gradients, group.num_directions, search)
    group = group.with_pilot_chains(int(allowed / made))
    found, measured = search_chains(group, first, num_gradients, search, stream)
    return _recipe(path, before, found, measured, Cost.gradients(made * group.num * group.num_chains))


def _checked_kernel(kernel: AbstractKernel[Any] | None, num_gradients: int, many: bool) -> HMC:
    if kernel is None:
        kernel = HMC(num_leapfrog=5, preconditioner="diagonal" if many else "dense")
    if not isinstance(kernel, HMC):
        raise TypeError(f"`kernel` must be HMC where `num_gradients` is given, got {type(kernel).__name__}.")
    if num_gradients < 16:
        raise ValueError(f"`num_gradients` must be at least 16, got {num_gradients}: it is the length of one chain.")
    return kernel


def _allowed(search: Search, start: Candidate, group: Problems) -> Search:
    """The search without orders where the path has none."""
    return search if isinstance(start.path_of_first(group.data), Ordered) else search._replace(deltas=())


def _recipe(path: Any, before: Recipe | None, found: Candidate, measured: Measured, cost: Cost) -> Recipe:
    """Hold what was found, with notes on it."""
    chosen: Any
    notes: tuple[Remark, ...] = ()
    if before is None:
        # An array, so that another value does not compile again; of a Python number, so that it does not widen float32.
        chosen = PathOf(as_pytree(path), jnp.asarray(float(found.delta)))
    else:
        chosen = with_delta(before.path, found.delta)
        notes = tuple(note for note in before.notes if note.kind is not Note.EQUAL_STEPS)
        cost += before.num_evaluations
    notes += (
        Note.CHAINS(
            num=int(found.betas.size),
            num_leapfrog=found.hmc.num_leapfrog,
            persistence=found.hmc.persistence,
            spread=float(found.hmc.spread),
            acceptance=found.target_acceptance,
            shortfall=measured.shortfall,
        ),
        Note.ORDER(q=1 - float(found.delta)),
    )
    findings = () if before is None else before.findings
    barrier = float(np.sum(np.sqrt(np.maximum(measured.variance, 0))))
    return Recipe(chosen, found.recipe.schedule, found.kernel, barrier, notes, findings, cost)
