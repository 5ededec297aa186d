"""Maps from all real numbers to the support of a distribution, for NumPy and JAX arrays.

They have the interface of NumPyro's transforms: `transform(u)`, `transform.inv(x)`, and
`transform.log_abs_det_jacobian(u, x)`, which keeps the axes of a batch.
"""

from typing import Any, NamedTuple

import numpy as np

from ..core import namespace, quiet


class Bounded(NamedTuple):
    """Coordinates above a lower and below an upper bound, either of which can be None.

    `x = lower + exp(u)`, `x = upper - exp(u)`, `x = lower + (upper - lower) sigmoid(u)`, or u itself.
    """

    lower: Any = None
    upper: Any = None

    @staticmethod
    def between(name: str, lower: Any, upper: Any) -> "Bounded":
        """The map to an interval whose ends may be infinite, the same ones for every coordinate."""
        ends = []
        for end in (np.asarray(lower, float), np.asarray(upper, float)):
            finite = np.isfinite(end)
            if finite.any() and not finite.all():
                raise ValueError(
                    f"the prior of `{name}` is bounded in some coordinates only: give them as separate variables."
                )
            ends.append(end if finite.all() else None)
        return Bounded(*ends)

    def __call__(self, u: Any) -> Any:
        xp = namespace(u)
        if self.lower is None:
            return u if self.upper is None else self.upper - xp.exp(u)
        if self.upper is None:
            return self.lower + xp.exp(u)
        return self.lower + (self.upper - self.lower) / (1 + xp.exp(-u))

    def inv(self, x: Any) -> Any:
        xp = namespace(x)
        if self.lower is None:
            return x if self.upper is None else xp.log(self.upper - x)
        if self.upper is None:
            return xp.log(x - self.lower)
        return xp.log(x - self.lower) - xp.log(self.upper - x)

    def log_abs_det_jacobian(self, u: Any, x: Any) -> Any:
        """For each coordinate."""
        xp = namespace(u)
        if self.lower is None or self.upper is None:
            return 0 * u if self.lower is None and self.upper is None else u
        return xp.log(self.upper - self.lower) - xp.logaddexp(0.0, u) - xp.logaddexp(0.0, -u)


class Simplex:
    """Proportions that sum to 1, by breaking a stick: u = 0 are equal ones. For NumPy arrays."""

    @quiet()
    def __call__(self, u: Any) -> Any:
        log_share, log_rest = self._logs(u)
        left = np.cumsum(log_rest, axis=-1)
        before = np.concatenate([np.zeros_like(left[..., :1]), left], axis=-1)
        return np.exp(before + np.concatenate([log_share, np.zeros_like(left[..., :1])], axis=-1))

    @quiet()
    def inv(self, x: Any) -> Any:
        x = np.maximum(x, np.finfo(float).tiny)
        # From the small end, so that nothing cancels.
        rest = np.cumsum(x[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        return np.log(x[..., :-1]) - np.log(rest) + self._offsets(x.shape[-1] - 1)

    @quiet()
    def log_abs_det_jacobian(self, u: Any, x: Any) -> Any:
        log_share, log_rest = self._logs(u)
        return np.sum(log_share + log_rest, axis=-1) + np.sum(np.cumsum(log_rest, axis=-1)[..., :-1], axis=-1)

    def _logs(self, u: Any) -> tuple[Any, Any]:
        """Log of the share of the rest of the stick that is broken off, and of what is left of it."""
        u = u - self._offsets(u.shape[-1])
        return -np.logaddexp(0.0, -u), -np.logaddexp(0.0, u)

    @staticmethod
    def _offsets(num: int) -> np.ndarray:
        return np.log(np.arange(num, 0, -1.0))
