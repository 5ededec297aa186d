"""The result of a run: the only door out of an algorithm."""

import enum
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from ._numerics import log_ess
from ._types import Point, Scalar


class Status(enum.IntEnum):
    """How a run ended; a number inside `jit`, an error outside."""

    OK = 0
    INVALID_START = 1
    INVALID_PROPOSAL = 2
    COLLAPSED = 3
    UNFINISHED = 4
    INFINITE_INTEGRAND = 5

    @property
    def message(self) -> str:
        return {
            Status.OK: "finished",
            Status.INVALID_START: "a log density is NaN or +inf at a draw from the base",
            Status.INVALID_PROPOSAL: "a log density is NaN or +inf at a point that the kernel proposed",
            Status.COLLAPSED: "every particle has weight zero",
            Status.UNFINISHED: "interrupted before beta = 1",
            Status.INFINITE_INTEGRAND: "the path's derivative is infinite at a draw from the base",
        }[self]


class NumEvaluations(NamedTuple):
    """How often a run evaluated the endpoints: values alone, and values together with their gradient."""

    base: int
    target: int
    base_gradient: int
    target_gradient: int

    @property
    def cost(self) -> int:
        """Evaluations of the target, a gradient counted as two."""
        return self.target + 2 * self.target_gradient

    def __add__(self, other: Any) -> "NumEvaluations":
        return NumEvaluations(*(a + b for a, b in zip(self, other, strict=True)))


class Result(eqx.Module):
    """What a run found.

    `log_mean_exp(log_weights) == log_evidence`, and `samples` with weights `exp(log_weights)` represent the target.
    `stats` has one entry per beta after the first: `beta`, `ess` (before resampling, as a number of particles),
    `acceptance`, `step_size`, `log_evidence` so far, and the weighted mean and variance of the path's derivative, with
    the slope of that mean. `features` are the path's features of the states at every beta, where the algorithm keeps
    them: along the first axis the betas, along the second the order of `samples`.
    """

    log_evidence: Scalar
    log_evidence_se: Scalar
    samples: Point
    log_weights: Float[Array, " n"]
    betas: Float[Array, " num"]
    stats: dict[str, Array]
    status: Int[Array, ""]
    num_evaluations: NumEvaluations = eqx.field(static=True)
    algorithm: str = eqx.field(static=True)
    features: Any = None

    @property
    def ess(self) -> Scalar:
        """Effective sample size of the final weights."""
        return jnp.exp(log_ess(self.log_weights))

    def summary(self) -> str:
        """A few lines for a person."""
        status = Status(int(self.status))
        num = self.log_weights.shape[0]
        counts = self.num_evaluations
        lines = [
            f"{self.algorithm}: log evidence {float(self.log_evidence):.4f} +- {float(self.log_evidence_se):.4f} "
            f"(standard error)",
            f"  {status.message}; {num} samples, effective {float(self.ess):.0f}",
            f"  {len(self.betas)} distributions, acceptance {_range(self.stats['acceptance'], '{:.0%}')}, "
            f"ESS per step {_range(self.stats['ess'] / num, '{:.0%}')}",
        ]
        if np.isfinite(self.stats["step_size"]).any():
            lines.append(f"  step size {_range(self.stats['step_size'], '{:.3g}')}")
        lines.append(
            f"  evaluations of the target: {counts.target:,} values and {counts.target_gradient:,} with gradient"
        )
        return "\n".join(lines)


def _range(values: Any, form: str) -> str:
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return "unknown"
    low, middle, high = (form.format(v) for v in np.percentile(values, [0, 50, 100]))
    return middle if low == high else f"{middle} (from {low} to {high})"
