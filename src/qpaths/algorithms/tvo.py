"""Objectives for training: the evidence lower bound, its importance weighted form, and thermodynamic ones on any path.

All are functions of a path from a normalized base, such as an encoder's q(z | x), to an unnormalized target such as
p(z) p(x | z), and of samples of the base. They estimate log Z of the target and can be differentiated in every array of
the path.

**The thermodynamic objective.** With `D_beta(x)` the path's derivative in beta of the log density,

    log Z = integral of eta(beta) over [0, 1],    eta(beta) = E_beta[D_beta],

and a Riemann sum over a grid of betas approximates the integral (Masrani, Le and Wood, 2019, for the geometric path).
The left sum takes eta at the left end of each interval, the right sum at the right end.

**Which sums are bounds.** On a q-path `d D / d beta = -(1 - q) D^2`, hence

    d eta / d beta = Var_beta[D] - (1 - q) E_beta[D^2] = q E_beta[D^2] - E_beta[D]^2.

- q >= 1 (the geometric path is q = 1): eta increases. Left sums are lower bounds of log Z, right sums upper bounds.
- q <= 0 (the mixture is q = 0): eta decreases. Right sums are lower bounds, left sums upper bounds.
- 0 < q < 1: eta can do either, and no sum is a bound for every problem. What is convex for every q >= 0 is
  `ln_q Z_beta`, because `(Z^(1-q))'' = q (1-q) Z^(1-q) Var[D]`: there, left sums of `Z_beta^(1-q) eta(beta)` are lower
  bounds of `ln_q Z`.

**With finitely many samples.** Means under the path's densities are self-normalized averages of samples of the base.
The estimate of eta(beta) is then the derivative of `log mean_i [pi_beta(x_i) / base(x_i)]`. The sums are those of a
path whose base is the empirical measure of the samples. The rules above hold for it *sample by sample* with the
importance weighted bound in place of log Z, and that is below log Z in the mean. So left sums for q >= 1 and right sums
for q <= 0 are lower bounds of log Z in expectation, for any number of samples. All sums tend to the importance weighted
bound as the grid becomes fine, whatever the path. The sums on the other side are upper bounds only as the number of
samples grows.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..core import Features, PRNGKey, Scalar, check_num, log_mean_exp
from ..paths import AbstractPath
from ..schedules import AbstractFixedSchedule, AbstractSchedule


def elbo(path: AbstractPath[Any], *, key: PRNGKey, num_samples: int = 1) -> Scalar:
    """The evidence lower bound (Kingma and Welling, 2014): the mean log weight of samples of the base.

    Args:
        path: From a normalized base, such as an encoder, to the unnormalized target.
        key: For the samples, through which the value can be differentiated.
        num_samples: Samples of the base. More reduce the noise, not the gap to the log evidence.

    Returns:
        The estimate, which can be differentiated.

    With a base that cannot be reparameterized the gradient is wrong: use `ThermodynamicObjective` with
    `gradient="covariance"`.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda z: qp.Normal(0.0, 1.0).log_prob(z) + 1.5)
        >>> bound = jax.jit(lambda key: elbo(path, key=key))  # compiled: faster than step by step
        >>> round(float(bound(jax.random.key(0))), 4)  # the base is the posterior, so the bound is tight
        1.5
    """
    return jnp.mean(_log_weights(path, key, num_samples))


def iwae(path: AbstractPath[Any], *, key: PRNGKey, num_samples: int) -> Scalar:
    """The importance weighted bound (Burda, Grosse and Salakhutdinov, 2016): the log of the mean weight.

    Args:
        path: From a normalized base, such as an encoder, to the unnormalized target.
        key: For the samples, through which the value can be differentiated.
        num_samples: Samples of the base. More make the bound tighter.

    Returns:
        The estimate, which can be differentiated. Too many samples do harm to an encoder: its
        gradient then has more noise relative to its size (Rainforth et al., 2018).

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda z: qp.Normal(0.5, 1.0).log_prob(z))  # log Z is 0
        >>> bound = jax.jit(lambda key: iwae(path, key=key, num_samples=1000))
        >>> bool(bound(jax.random.key(0)) > -0.1)
        True
    """
    return log_mean_exp(_log_weights(path, key, num_samples))


def _log_weights(path: AbstractPath[Any], key: PRNGKey, num_samples: int) -> Array:
    """Log weights of samples of the base, differentiable in the path and in the samples."""
    check_num("num_samples", num_samples, smallest=1)
    features = _features(path, key, num_samples, differentiate_samples=True)
    return jax.vmap(lambda f: path.log_ratio(0.0, 1.0, f))(features)


def _features(path: AbstractPath[Any], key: PRNGKey, num_samples: int, *, differentiate_samples: bool) -> Features:
    """Features of samples of the base; with the samples held fixed where no gradient may pass through them."""

    def one(key: PRNGKey) -> Features:
        x = path.sample_base(key)
        return path.features(x if differentiate_samples else jax.lax.stop_gradient(x))

    return jax.vmap(one)(jax.random.split(key, num_samples))


class ThermodynamicObjective(eqx.Module):
    """The thermodynamic variational objective on any path; `objective(path, key=...)` estimates log Z.

    Args:
        schedule: The betas; `LogUniformSchedule` for the published objective.
        num_samples: Samples of the base.
        rule: `"left"` or `"right"`. The text of this module says which sums are bounds.
        gradient: How samples enter the gradient, not the value; see below.

    - `"reparameterized"` differentiates through the samples of the base, which must be smooth functions of its
      parameters: the exact gradient of the estimate.
    - `"covariance"` holds the samples and the density that they were drawn from fixed:
      `E_beta[grad D] + Cov_beta[grad log pi_beta, D]`, self-normalized (Masrani, Le and Wood, 2019). It needs no
      smoothness and applies to discrete latent variables, but has far more noise.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> encoder, joint = qp.Normal(0.0, 1.0), lambda z: -0.5 * (z - 0.5) ** 2  # log Z is log(2 pi) / 2 = 0.92
        >>> objective = qp.ThermodynamicObjective(qp.LinearSchedule(10), num_samples=1000)
        >>> value = jax.jit(lambda key: objective(qp.GeometricPath(encoder, joint), key=key))
        >>> bool(0.7 < value(jax.random.key(0)) < 0.95)  # left sums are a lower bound
        True
    """

    schedule: AbstractSchedule
    num_samples: int = eqx.field(static=True)
    rule: str = eqx.field(static=True, default="left")
    gradient: str = eqx.field(static=True, default="reparameterized")

    def __check_init__(self) -> None:
        check_num("num_samples", self.num_samples)
        if not isinstance(self.schedule, AbstractFixedSchedule):
            raise TypeError(f"`schedule` must be fixed, such as `LogUniformSchedule(101)`, got {self.schedule!r}.")
        if self.rule not in ("left", "right"):
            raise ValueError(f"`rule` must be left or right, got {self.rule!r}.")
        if self.gradient not in ("reparameterized", "covariance"):
            raise ValueError(f"`gradient` must be reparameterized or covariance, got {self.gradient!r}.")

    def __call__(self, path: AbstractPath[Any], *, key: PRNGKey) -> Scalar:
        """An estimate of log Z of the path's target, to be maximized.

        Costs one evaluation of each endpoint for each sample, whatever the number of betas.
        """
        through_samples = self.gradient == "reparameterized"
        features = _features(path, key, self.num_samples, differentiate_samples=through_samples)
        log_proposal = jax.vmap(lambda f: path.log_density_from(0.0, f))(features)
        if not through_samples:
            log_proposal = jax.lax.stop_gradient(log_proposal)

        def mean_derivative(beta: Array) -> Scalar:
            log_density = jax.vmap(lambda f: path.log_density_from(beta, f))(features)
            derivative = jax.vmap(lambda f: path.derivative_from(beta, f))(features)
            # Differentiated with fixed samples, the softmax gives the covariance term: d softmax = w (d log pi - mean).
            return jax.nn.softmax(log_density - log_proposal) @ derivative

        betas = jnp.asarray(self.schedule.betas, log_proposal.dtype)  # type: ignore[attr-defined]
        ends = betas[:-1] if self.rule == "left" else betas[1:]
        return jnp.diff(betas) @ jax.vmap(mean_derivative)(ends)
