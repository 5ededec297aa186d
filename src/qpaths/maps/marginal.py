"""Laws of noise: Student's t in some dimensions, mixtures of it, and a mixture in each of some coordinates."""

import math
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..core import AnyArray, Module, Rows, Stream, Vector, logsumexp, namespace


class Marginal(Module):
    """Independent noise: coordinate j is a mixture of normal distributions, `sum_k shares[j, k] N(centers, scales)`."""

    shares: Float[AnyArray, "m k"]
    centers: Float[AnyArray, "m k"]
    scales: Float[AnyArray, "m k"]

    def log_prob_and_slope(self, noise: Rows) -> tuple[Vector, Rows]:
        """Return the log density and its gradient."""
        xp = namespace(noise)
        logs = self.logs(noise)
        each = logsumexp(logs, keepdims=True)
        slopes = xp.exp(logs - each) * (self.centers - noise[:, :, None]) / self.scales**2
        return xp.sum(each[:, :, 0], axis=-1), xp.sum(slopes, axis=-1)

    def logs(self, noise: Rows) -> Float[AnyArray, "n m k"]:
        """Return the log of the share times the density, of each part of each coordinate."""
        xp = namespace(noise)
        away = (noise[:, :, None] - self.centers) / self.scales
        return xp.log(self.shares) - xp.log(self.scales) - 0.5 * (away**2 + math.log(2 * math.pi))

    def draw(self, stream: Stream, normal: Rows) -> Rows:
        """Return noise from standard normal numbers, and others that choose the part."""
        number = stream.uniform(normal.shape)
        xp = namespace(number, normal)
        last = self.shares.shape[1] - 1
        which = xp.sum(number[:, :, None] > xp.cumsum(self.shares, axis=1)[:, :last], axis=-1)
        center, scale = (
            xp.take_along_axis(xp.asarray(part)[None], which[:, :, None], axis=2)[:, :, 0]
            for part in (self.centers, self.scales)
        )
        return center + scale * normal


class Student(NamedTuple):
    """Standard noise of a multivariate Student-t distribution."""

    df: float

    def log_prob_and_slope(self, noise: Rows) -> tuple[Vector, Rows]:
        xp, df, dimension = namespace(noise), self.df, noise.shape[1]
        squared = xp.einsum("ij,ij->i", noise, noise)
        constant = (
            math.lgamma(0.5 * (df + dimension)) - math.lgamma(0.5 * df) - 0.5 * dimension * math.log(math.pi * df)
        )
        log_prob = constant - 0.5 * (df + dimension) * xp.log1p(squared / df)
        return log_prob, (-(df + dimension) / (df + squared))[:, None] * noise

    def draw(self, stream: Stream, normal: Rows) -> Rows:
        mixing = stream.gamma(0.5 * self.df, (normal.shape[0], 1)) / (0.5 * self.df)
        return normal / mixing**0.5


class Mixture(Module):
    """Noise that is a mixture of Student-t distributions: part i is `centers[i] + factors[i] @ noise`."""

    df: float = eqx.field(static=True)
    shares: Float[AnyArray, " p"]
    centers: Float[AnyArray, "p k"]
    factors: Float[AnyArray, "p k k"]
    """Lower triangular."""

    @property
    def dimension(self) -> int:
        return self.centers.shape[1]

    @staticmethod
    def of(df: float, shares: np.ndarray, centers: np.ndarray, scale_matrices: np.ndarray) -> "Mixture":
        """Return the mixture with these scale matrices; NumPy raises an error if one is not definite."""
        return Mixture(df, shares, centers, np.linalg.cholesky(scale_matrices))

    def log_prob_and_slope(self, noise: Rows) -> tuple[Vector, Rows]:
        """Return the log density and its gradient."""
        xp = namespace(noise)
        logs, slopes = self._parts(noise)
        total = logsumexp(logs, axis=-1)
        return total, xp.einsum("np,npk->nk", xp.exp(logs - total[:, None]), slopes)

    def shares_at(self, noise: Rows) -> Float[AnyArray, "n p"]:
        """Return the probability of each part, given the noise."""
        logs = self._parts(noise)[0]
        return namespace(noise).exp(logs - logsumexp(logs, keepdims=True))

    def _parts(self, noise: Rows) -> tuple[Float[AnyArray, "n p"], Float[AnyArray, "n p k"]]:
        """Return the log of the share times the density, and the gradient of the log density, of each part."""
        xp = namespace(noise)
        logs, slopes = [], []
        for share, center, factor in zip(xp.asarray(self.shares), self.centers, self.factors, strict=True):
            inverse = xp.linalg.inv(factor)
            value, slope = Student(self.df).log_prob_and_slope((noise - center) @ inverse.T)
            logs.append(value + xp.log(share) - xp.sum(xp.log(xp.diagonal(factor))))
            slopes.append(slope @ inverse)
        return xp.stack(logs, axis=-1), xp.stack(slopes, axis=1)

    def draw(self, stream: Stream, normal: Rows) -> Rows:
        """Return noise from standard normal numbers, and others that choose the part and how far it reaches."""
        choose, mix = stream.split(2)
        number = choose.uniform((normal.shape[0], 1))
        xp = namespace(number, normal)
        which = xp.sum(number > xp.cumsum(xp.asarray(self.shares))[:-1], axis=-1)
        noise = Student(self.df).draw(mix, normal)
        return xp.asarray(self.centers)[which] + xp.einsum("nij,nj->ni", xp.asarray(self.factors)[which], noise)
