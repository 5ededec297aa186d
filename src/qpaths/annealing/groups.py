"""Steps in groups of neighbors, of which sums are kept: one compiled program for schedules of all lengths."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import is_traced
from .loop import Annealing, Record, Recorded, anneal
from .population import State


def anneal_groups(
    annealing: Annealing, state: State, ends: Any, *, add: Record, keep: Callable[[State], Recorded]
) -> tuple[State, Recorded, Recorded]:
    """All steps in groups of neighbors: sums of `add` over each group, and `keep` of the state after it.

    `ends` says after how many steps each group ends. Traced, the number of steps is a number of the program and not a
    shape: with `padded` betas one program serves schedules of all lengths. Traced betas may also descend, for chains
    from the target to the base.
    """
    if not is_traced(annealing, state, ends):
        state, (added, kept) = anneal(annealing, state, record=lambda state, stats: (add(state, stats), keep(state)))
        first = np.minimum(np.append(0, ends[:-1]), len(jax.tree.leaves(added)[0]) - 1)  # a fault ends a run early
        sums = jax.tree.map(lambda leaf: np.add.reduceat(leaf, first, axis=0), added)
        return state, sums, jax.tree.map(lambda leaf: leaf[np.minimum(ends, leaf.shape[0]) - 1], kept)

    def step(state: State) -> tuple[State, Recorded]:
        state, stats = annealing.step(state, annealing.next_beta(state))
        return state, add(state, stats)

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(step, state)[1])

    def one_more(carry: tuple[State, Recorded]) -> tuple[State, Recorded]:
        state, added = step(carry[0])
        return state, jax.tree.map(jnp.add, carry[1], added)

    def group(state: State, end: Any) -> tuple[State, tuple[Recorded, Recorded]]:
        state, sums = jax.lax.while_loop(lambda carry: carry[0].stage < end, one_more, (state, zeros))
        return state, (sums, keep(state))

    state, (sums, kept) = jax.lax.scan(group, state, jnp.asarray(ends))
    return state, sums, kept
