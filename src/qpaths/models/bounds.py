"""Bounds on log p(x) of many observations, as a value: means with standard errors, a summary, and a file."""

import os
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Shaped

from ..core import log_mean_exp
from ..io import Codec, read, to_jax, write
from ..results import Status


class DecoderBounds(eqx.Module):
    """Log weights of all chains for all observations, and the bounds that they give.

    The bounds hold in expectation (Grosse, Ghahramani and Adams, 2015). Those of single observations may cross by their
    noise. Without reverse chains (a width of zero) there is no upper bound.

    Attributes:
        forward: Log weights of the forward chains, one row for each observation.
        reverse: Those of the reverse chains, which estimate minus the log evidence.
        acceptance: Mean acceptance of each observation's forward chains.
        status: `qpaths.Status` of each observation's run.

    Examples:
        >>> import jax.numpy as jnp
        >>> forward, reverse = jnp.array([[-3.0, -1.0]]), jnp.array([[1.0, 2.0]])
        >>> bounds = DecoderBounds(forward, reverse, jnp.ones(1), jnp.zeros(1, int))
        >>> float(bounds.lower[0]), float(bounds.upper[0]), float(bounds.gap[0])
        (-2.0, -1.5, 0.5)
    """

    forward: Float[Array, "num chains"]
    reverse: Float[Array, "num reverse_chains"]
    acceptance: Float[Array, " num"]
    """Mean acceptance of each observation's forward chains."""
    status: Shaped[Array, " num"]
    """`qpaths.Status` of each observation's run."""

    @property
    def lower(self) -> Float[Array, " num"]:
        """Mean log weight: a lower bound of log p(x) in expectation, for each observation."""
        return jnp.mean(self.forward, axis=1)

    @property
    def upper(self) -> Float[Array, " num"]:
        """Minus the mean log weight of the reverse chains: an upper bound in expectation."""
        return -jnp.mean(self.reverse, axis=1)

    @property
    def gap(self) -> Float[Array, " num"]:
        return self.upper - self.lower

    @property
    def mean_lower(self) -> tuple[float, float]:
        """Mean lower bound over the observations, and its standard error: other observations and other chains."""
        return _mean(self.lower)

    @property
    def mean_upper(self) -> tuple[float, float]:
        """Mean upper bound over the observations, and its standard error; NaN where there are no reverse chains."""
        return _mean(self.upper)

    @property
    def mean_gap(self) -> tuple[float, float]:
        """Mean gap over the observations, and its standard error, smaller than theirs because they share noise."""
        return _mean(self.gap)

    def averaged(self) -> "DecoderBounds":
        """The same with the weights of an observation's chains averaged under the log.

        Still bounds, tighter by Jensen's inequality (Burda, Grosse and Salakhutdinov, 2016); the released code reports
        these.
        """
        forward, reverse = log_mean_exp(self.forward)[:, None], self.reverse
        reverse = log_mean_exp(reverse)[:, None] if reverse.shape[1] else reverse
        return DecoderBounds(forward, reverse, self.acceptance, self.status)

    def summary(self) -> str:
        """A few lines for a person: the mean bounds with standard errors, and what went wrong where."""
        num, chains = self.forward.shape
        lines = [f"{num} observations with {chains} chains each, {float(jnp.mean(self.acceptance)):.0%} accepted"]
        parts = {"lower bound": self.mean_lower}
        if self.reverse.shape[1]:
            parts |= {"upper bound": self.mean_upper, "gap": self.mean_gap}
        lines += [
            f"  mean {name} {value:.4f} +- {error:.4f} nats (standard error)" for name, (value, error) in parts.items()
        ]
        status = np.asarray(self.status)
        for code in np.unique(status[status != Status.OK]):
            lines.append(f"  beware: {np.sum(status == code)} observations: {Status(int(code)).message}")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all log weights to a file that `load_bounds` reads, in the format of `Result.save`."""
        write(path, "decoder bounds", self, Codec((DecoderBounds,)))


def load_bounds(path: str | os.PathLike[str]) -> DecoderBounds:
    """Return the bounds that `DecoderBounds.save` wrote to a file."""
    return to_jax(read(path, ("decoder bounds",), Codec((DecoderBounds,))))


def _mean(values: Any) -> tuple[float, float]:
    """The mean of one number for each observation, and its standard error."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / values.size**0.5) if values.size > 1 else float("nan")
