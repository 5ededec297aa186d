"""The paper's two rules for q that look at draws from the base alone: `rho_rule` and Algorithm 1, `ess_heuristic`."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import RandomKey, check_num, log_ess, log_power_mean_pair, quiet, stream_of

_EXACT = 1e-10
"""Loss at which restarts end: the effective share is within 1e-5 of what is wanted, far less than its own noise."""
_LOG_RHO = (0.0, 18.0)
"""Bounds of log10(rho), those of the released code: q from 0 to where double precision cannot tell it from 1."""


class EssChoice(NamedTuple):
    """What Algorithm 1 returns.

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

    Algorithm 1 of the paper's appendix. Each restart minimizes the squared distance to `target_ess` by Powell's method,
    from `log10(rho)` with `rho` normal around that of `rho_rule`; the best restart counts. With both beta and q free a
    whole curve of pairs has the wanted share, and the restart decides which of them is found.

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
        `EssChoice` with `delta`, `q` in [0, 1), `beta` and `loss`.

    It looks at the first step alone, so the q may be bad for the rest of the path.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> chosen = ess_heuristic(np.linspace(-50.0, 0.0, 100), key=jax.random.key(0), num_restarts=1, first_beta=0.1)
        >>> bool(0.9 < chosen.q < 1.0)
        True
    """
    import scipy.optimize

    values = _checked(log_weights)
    check_num("num_restarts", num_restarts, smallest=1)
    _check_share("target_ess", target_ess)
    if not spread >= 0:
        raise ValueError(f"`spread` must not be negative, got {spread}: it is a standard deviation of log10(rho).")
    if first_beta is not None and not 0 < first_beta <= 1:
        raise ValueError(f"`first_beta` must lie in (0, 1], got {first_beta}: it is the beta after 0.")

    @quiet()
    def loss(beta: float, log_rho: float) -> float:
        # The base's own value does not matter: the weights are those of the path over the base.
        delta = 10.0**-log_rho
        weights = log_power_mean_pair(beta, 0.0, values, delta, delta * log_scale)
        return float(np.square(np.exp(log_ess(weights)) / values.size - target_ess))

    def objective(free: Float[np.ndarray, " free"]) -> float:
        return loss(float(free[0]) if first_beta is None else first_beta, float(free[-1]))

    bounds = [(1e-12, 1.0), _LOG_RHO] if first_beta is None else [_LOG_RHO]
    center = -np.log10(rho_rule(values))
    starts = np.clip(center + spread * np.asarray(stream_of(key, host=True).normal((num_restarts,))), *_LOG_RHO)
    best = EssChoice(10.0**-center, first_beta or 1.0, np.inf)
    for start in starts:
        free = [1.0, start] if first_beta is None else [start]
        found = scipy.optimize.minimize(objective, free, method="Powell", bounds=bounds)
        if found.fun < best.loss:
            best = EssChoice(10.0 ** -float(found.x[-1]), first_beta or float(found.x[0]), float(found.fun))
        if best.loss < _EXACT:
            break
    return best


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
