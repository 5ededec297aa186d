"""The Metropolis-adjusted Langevin algorithm."""

import equinox as eqx

from .._types import ScalarLike
from .gradient import LeapfrogKernel


class MALA(LeapfrogKernel):  # type: ignore[misc]
    """The Metropolis-adjusted Langevin algorithm: Hamiltonian Monte Carlo with one leapfrog step, without jitter.

    Args:
        num_steps: Transitions at each beta; each costs one value with gradient of each density.
        step_size: As in `HMC`; None has it tuned at each beta.
        preconditioner: As in `HMC`: `"dense"`, `"low_rank"`, `"diagonal"` or `"none"`.
        target_acceptance: The acceptance rate of the tuning. 57 % is optimal in many dimensions (Roberts and Rosenthal,
            1998).

    It needs gradients, and moves less far than `HMC` for the same number of them.

    Examples:
        >>> MALA(num_steps=2).cost.total  # one gradient for each transition, which counts as two
        2
    """

    num_steps: int = eqx.field(static=True, default=1)
    step_size: ScalarLike | None = None
    preconditioner: str = eqx.field(static=True, default="dense")
    target_acceptance: ScalarLike = 0.574

    @property  # type: ignore[misc]
    def num_leapfrog(self) -> int:  # type: ignore[override]
        """Always one."""
        return 1

    @property  # type: ignore[misc]
    def jitter(self) -> float:  # type: ignore[override]
        """Always zero: a single step cannot return to its start."""
        return 0.0

    @property  # type: ignore[misc]
    def persistence(self) -> float:  # type: ignore[override]
        """Always zero: `HMC(num_leapfrog=1, persistence=0.9)` keeps momenta."""
        return 0.0

    @property  # type: ignore[misc]
    def spread(self) -> float:  # type: ignore[override]
        """Always one: all steps are about as long as tuned."""
        return 1.0
