"""The paper's two rules for q that look at draws from the base alone: `rho_rule` and Algorithm 1, `ess_heuristic`."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import RandomKey, check_num, log_ess, log_power_mean_pair, quiet, stream_of

_EXACT = 1e-10
"""Loss at which restarts end: the effective share is within 1e-5 of what is wanted, far less than its own noise."""
_LOST = 0.01
"""Share by which the best may fall short; more is an error."""
_LEAST_BETA = 1e-12
_LOG_RHO = (0.0, 18.0)
"""Bounds of log10(rho), those of the released code: q from 0 to where double precision cannot tell it from 1."""


class EssChoice(NamedTuple):
    """Hold what Algorithm 1 returns.

    Attributes:
        delta: 1 - q.
        beta: The first beta after 0.
        loss: The squared distance of the effective share of the draws from the wanted one.
    """

    delta: float
    beta: float
    loss: float

    @property
    def q(self) -> float:
        """The order; `delta` has more digits where it is near 1."""
        return 1 - self.delta


def rho_rule(log_weights: Any) -> float:
    """`delta = 1 / rho` with `rho = max |log w|`, so that `exp(delta log w)` neither over- nor underflows.

    Paper, eq. rho_choice. Draws of weight zero do not count. Where every |log w| is below 1 the result is 1, the
    mixture: the paper's rule would give a negative q there, although nothing can overflow.

    Args:
        log_weights: Log target minus log base at draws from the base.

    Returns:
        delta = 1 - q, at most 1.

    It knows nothing of the kernel and of the schedule: `choose_q` with `method="bound"` does.

    Examples:
        >>> rho_rule([-2.0, -50.0, 10.0])
        0.02
    """
    values = _checked(log_weights)
    return 1 / max(float(np.max(np.abs(values[np.isfinite(values)]))), 1.0)


def ess_heuristic(
    log_weights: Any,
    *,
    key: RandomKey,
    num_restarts: int = 100,
    spread: float = 0.1,
    first_beta: float | None = None,
    target_ess: float = 0.5,
    log_scale: float = 0.0,
) -> EssChoice:
    """q and the first beta at which a share `target_ess` of the draws from the base are effective.

    Algorithm 1 of the paper's appendix. Each restart begins at `log10(rho)`, normal around that of `rho_rule`; the best
    restart counts. With both beta and q free a whole curve of pairs has the wanted share: the restart decides the q,
    and beta is the root there. (Powell's method on both, as in the released code, misses roots near beta = 0 and then
    ends at q = 1.) With a given first beta q is found by Powell's method.

    Args:
        log_weights: Log target minus log base at draws from the base; `-inf` where the target has no mass. Such draws
            keep the weight `(1-beta)^(1/delta)` for q < 1.
        key: For the restarts.
        num_restarts: M of the paper, the most. They end at one that reaches the wanted share to 1e-5.
        spread: sigma of the paper, the standard deviation of log10(rho).
        first_beta: The first beta where the schedule is known; q alone is then free. None optimizes both.
        target_ess: The wanted share.
        log_scale: As in `QPath`.

    Returns:
        `EssChoice` with `delta`, `q` in [0, 1), `beta` and `loss`. Where more than the wanted share is effective at
        beta = 1 for every q, beta is 1.

    Where no beta, or no q at the given one, comes within 0.01 of the wanted share, it is an error.

    It looks at the first step alone, so the q may be bad for the rest of the path.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> chosen = ess_heuristic(np.linspace(-50.0, 0.0, 100), key=jax.random.key(0), num_restarts=1, first_beta=0.1)
        >>> bool(0.9 < chosen.q < 1.0)
        True
    """
    values = _checked(log_weights)
    check_num("num_restarts", num_restarts, smallest=1)
    _check_share("target_ess", target_ess)
    if not spread >= 0:
        raise ValueError(f"`spread` must not be negative, got {spread}: it is a standard deviation of log10(rho).")
    if first_beta is not None and not 0 < first_beta <= 1:
        raise ValueError(f"`first_beta` must lie in (0, 1], got {first_beta}: it is the beta after 0.")

    @quiet()
    def excess(beta: float, log_rho: float) -> float:
        # The base's own value does not matter: the weights are those of the path over the base.
        delta = 10.0**-log_rho
        weights = log_power_mean_pair(beta, 0.0, values, delta, delta * log_scale)
        return float(np.exp(log_ess(weights))) / values.size - target_ess

    center = -np.log10(rho_rule(values))
    starts = np.clip(center + spread * np.asarray(stream_of(key, host=True).normal((num_restarts,))), *_LOG_RHO)
    best, missed = EssChoice(10.0**-center, first_beta or 1.0, np.inf), 0.0
    for start in map(float, starts):
        log_rho, beta = _near(start, first_beta, excess) if first_beta else (start, _root(start, excess))
        off = excess(beta, log_rho)
        if off**2 < best.loss:
            best, missed = EssChoice(10.0**-log_rho, beta, off**2), off
        if best.loss < _EXACT:
            break
    if missed < -_LOST:
        raise ValueError(
            f"no q makes {target_ess:.0%} of the draws effective at "
            f"{f'the first beta {first_beta:g}' if first_beta else 'any beta'}; at most {target_ess + missed:.1%} are: "
            f"{'take a smaller first beta, or ' if first_beta else ''}take a base that is nearer to the target."
        )
    return best


def _near(start: float, beta: float, excess: Callable[[float, float], float]) -> tuple[float, float]:
    """The order near a start at which the wanted share is effective at a given beta, by Powell's method."""
    import scipy.optimize

    found = scipy.optimize.minimize(
        lambda free: excess(beta, float(free[0])) ** 2, [start], method="Powell", bounds=[_LOG_RHO]
    )
    return float(found.x[0]), beta


def _root(log_rho: float, excess: Callable[[float, float], float]) -> float:
    """The beta at which the wanted share is effective at a given order; 1 where more than that is effective there.

    The root may be far below 1e-3, so it is sought in log beta.
    """
    import scipy.optimize

    if excess(1.0, log_rho) >= 0:
        return 1.0
    if excess(_LEAST_BETA, log_rho) <= 0:
        return _LEAST_BETA
    return math.exp(
        scipy.optimize.brentq(
            lambda log_beta: excess(math.exp(log_beta), log_rho), math.log(_LEAST_BETA), 0.0, xtol=1e-9
        )
    )


def _checked(log_weights: Any) -> Float[np.ndarray, " n"]:
    values = np.asarray(log_weights, float).ravel()
    wrong = np.isnan(values) | (values == np.inf)
    if wrong.any():
        raise ValueError(f"`log_weights` must be finite or -inf, got {values[wrong][0]} at {int(np.argmax(wrong))}.")
    if np.isfinite(values).sum() < 2:
        raise ValueError(f"`log_weights` must have two finite values, got {values}: draw more from the base.")
    return values


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must lie in (0, 1), got {value}: it is a share of the draws.")
