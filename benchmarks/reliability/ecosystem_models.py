"""The models of `ecosystem.py`: the same ones through several doors, closed forms, and posteriors for NUTS."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln, multigammaln
from jax.scipy.stats import norm
from scipy.integrate import quad

from qpaths.adapters import from_numpyro, from_prior, from_pymc
from qpaths_paper.parts.datasets import load

Y = np.array([1.2, 0.4, 0.9])
ORDERED = dist.TransformedDistribution(dist.Normal(0, 1).expand([3]).to_event(1), dist.transforms.OrderedTransform())


# The same model through every door: positive, interval, simplex, correlation, ordered and vector variables.


def hand_prior(p: dict[str, Any]) -> Any:
    """Written out, in the variables' own units."""
    value = norm.logpdf(p["mu"], 0, 10) + jnp.log(2 / (jnp.pi * 2)) - jnp.log1p((p["sigma"] / 2) ** 2)
    value += -jnp.log(p["sigma"]) + jnp.log(2.0) + jnp.sum(norm.logpdf(p["theta"], p["mu"], p["sigma"]))
    # LKJ with concentration 2 in three dimensions: the Cholesky factor's density in its entries below the diagonal.
    diagonal = jnp.diag(p["chol"])
    order = jnp.array([2 * 2 - 2 + 3 - 2, 2 * 2 - 2 + 3 - 3])
    # The normalizer is a product of Beta functions (Lewandowski, Kurowicka and Joe, 2009).
    normalizer = 2 * _log_beta(2.5, 2.5) + _log_beta(2.0, 2.0) + jnp.log(2.0) * (2 * (2 * 2.5 - 1) + 2 * 2.0 - 1)
    value += jnp.sum(order * jnp.log(diagonal[1:])) - normalizer
    # Steps of the ordered vector are log-normal.
    steps = jnp.log(jnp.diff(p["cuts"]))
    return value + norm.logpdf(p["cuts"][0]) + jnp.sum(norm.logpdf(steps) - steps)


def _log_beta(a: float, b: float) -> Any:
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def hand_likelihood(p: dict[str, Any]) -> Any:
    mean = p["mu"] + jnp.sum(p["theta"]) + p["rate"] * p["w"][0]
    return jnp.sum(norm.logpdf(Y, mean, p["sigma"]))


def everything(y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.0))
    rate = numpyro.sample("rate", dist.Uniform(0, sigma))
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("chol", dist.LKJCholesky(3, 2.0))
    numpyro.sample("cuts", ORDERED)
    with numpyro.plate("groups", 2):
        theta = numpyro.sample("theta", dist.Normal(mu, sigma))
    numpyro.sample("y", dist.Normal(mu + theta.sum() + rate * w[0], sigma), obs=y)


PRIOR = {
    "mu": dist.Normal(0, 10),
    "sigma": dist.HalfCauchy(2.0),
    "rate": lambda p: dist.Uniform(0, p["sigma"]),
    "w": dist.Dirichlet(jnp.ones(3)),
    "chol": dist.LKJCholesky(3, 2.0),
    "cuts": ORDERED,
    "theta": lambda p: dist.Normal(p["mu"], p["sigma"]).expand([2]),
}


def pymc_everything() -> Any:
    """The correlation by partial correlations, the ordered vector by steps: PyMC does not normalize its own."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        mu = pm.Normal("mu", 0, np.array(10.0))
        sigma = pm.HalfCauchy("sigma", 2.0)
        rate = pm.Uniform("rate", 0, sigma)
        w = pm.Dirichlet("w", np.ones(3))
        theta = pm.Normal("theta", mu, sigma, shape=2)
        a, b, c = 2 * pm.Beta("partial", np.array([2.5, 2.5, 2.0]), np.array([2.5, 2.5, 2.0])) - 1
        last = [b, c * pt.sqrt(1 - b**2), pt.sqrt((1 - b**2) * (1 - c**2))]
        pm.Deterministic(
            "chol", pt.stack([pt.stack([1.0, 0.0, 0.0]), pt.stack([a, pt.sqrt(1 - a**2), 0.0]), pt.stack(last)])
        )
        first, steps = pm.Normal("first", 0, 1), pm.LogNormal("steps", 0, 1, shape=2)
        pm.Deterministic("cuts", first + pt.concatenate([[0.0], pt.cumsum(steps)]))
        pm.Normal("y", mu + theta.sum() + rate * w[0], sigma, observed=Y)
    return model


def DOORS(has_pymc: bool) -> dict[str, Any]:  # noqa: N802
    """Doors to the same model."""
    doors = {
        "prior objects": from_prior(PRIOR, hand_likelihood),
        "NumPyro": from_numpyro(everything, jnp.asarray(Y)),
    }
    return doors | ({"PyMC": from_pymc(pymc_everything())} if has_pymc else {})


# Models with a known evidence.


def CLOSED(has_pymc: bool) -> dict[str, tuple[float, dict[str, Any]]]:  # noqa: N802
    """The exact log evidence, and the model through several doors."""
    found = {}
    for case in (_beta_binomial, _gamma_poisson, _dirichlet_multinomial, _inverse_gamma_regression, _wishart, _lkj):
        name, exact, made = case()
        found[name] = (float(exact), made)
    if has_pymc:
        found["beta-binomial"][1]["PyMC"] = from_pymc(_pymc_beta_binomial())
        found["normal-inverse-gamma regression"][1]["PyMC"] = from_pymc(_pymc_regression())
    return found


def _beta_binomial():
    exact = gammaln(11) - gammaln(8) - gammaln(4) + _log_beta(9.0, 6.0) - _log_beta(2.0, 3.0)

    def model(y):
        numpyro.sample("y", dist.Binomial(10, numpyro.sample("p", dist.Beta(2, 3))), obs=y)

    def log_likelihood(p):
        return dist.Binomial(10, p["p"]).log_prob(7)

    made = {"prior objects": from_prior({"p": dist.Beta(2, 3)}, log_likelihood), "NumPyro": from_numpyro(model, 7)}
    return "beta-binomial", exact, made


def _pymc_beta_binomial():
    import pymc as pm

    with pm.Model() as model:
        pm.Binomial("y", n=10, p=pm.Beta("p", 2.0, 3.0), observed=7)
    return model


def _gamma_poisson():
    counts = jnp.array([3.0, 5, 2, 4])
    total, num = counts.sum(), len(counts)
    exact = gammaln(2 + total) - gammaln(2.0) + 2 * jnp.log(0.5) - (2 + total) * jnp.log(0.5 + num)
    exact -= gammaln(counts + 1).sum()

    def model(y):
        numpyro.sample("y", dist.Poisson(numpyro.sample("rate", dist.Gamma(2.0, 0.5))), obs=y)

    prior = {"rate": dist.Gamma(2.0, 0.5)}
    own = from_prior(prior, lambda p: dist.Poisson(p["rate"]).log_prob(counts).sum())
    return "gamma-Poisson", exact, {"prior objects": own, "NumPyro": from_numpyro(model, counts)}


def _dirichlet_multinomial():
    alpha, counts = jnp.array([1.0, 2.0, 0.5, 1.5]), jnp.array([4, 7, 0, 2])
    num = counts.sum()
    exact = gammaln(num + 1.0) - gammaln(counts + 1.0).sum() + gammaln(alpha.sum()) - gammaln(alpha.sum() + num)
    exact += (gammaln(alpha + counts) - gammaln(alpha)).sum()

    def model(y):
        numpyro.sample("y", dist.Multinomial(int(num), numpyro.sample("w", dist.Dirichlet(alpha))), obs=y)

    own = from_prior({"w": dist.Dirichlet(alpha)}, lambda p: dist.Multinomial(int(num), p["w"]).log_prob(counts))
    return "Dirichlet-multinomial", exact, {"prior objects": own, "NumPyro": from_numpyro(model, counts)}


X = np.linspace(-1, 1, 20)
DESIGN = np.stack([np.ones_like(X), X, X**2], axis=1)
RESPONSE = 0.5 + 1.5 * X + 0.4 * np.random.default_rng(0).standard_normal(20)


def _inverse_gamma_regression():
    """sigma^2 ~ InverseGamma(2, 1), w | sigma ~ N(0, 4 sigma^2)."""
    a, b, scale = 2.0, 1.0, 2.0
    precision = DESIGN.T @ DESIGN + np.eye(3) / scale**2
    mean = np.linalg.solve(precision, DESIGN.T @ RESPONSE)
    a_new, b_new = a + len(X) / 2, b + 0.5 * (RESPONSE @ RESPONSE - mean @ precision @ mean)
    exact = -0.5 * len(X) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1] - 3 * np.log(scale)
    exact += gammaln(a_new) - gammaln(a) + a * np.log(b) - a_new * np.log(b_new)
    prior = {
        "v": dist.InverseGamma(a, b),
        "w": lambda p: dist.Normal(0, scale * jnp.sqrt(p["v"])).expand([3]),
    }
    own = from_prior(prior, lambda p: dist.Normal(DESIGN @ p["w"], jnp.sqrt(p["v"])).log_prob(RESPONSE).sum())
    return (
        "normal-inverse-gamma regression",
        exact,
        {"prior objects": own, "NumPyro": from_numpyro(regression, DESIGN, jnp.asarray(RESPONSE))},
    )


def regression(design: Any, y: Any) -> None:
    v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))
    w = numpyro.sample("w", dist.Normal(0, 2 * jnp.sqrt(v)).expand([3]).to_event(1))
    numpyro.sample("y", dist.Normal(design @ w, jnp.sqrt(v)), obs=y)


def _pymc_regression():
    import pymc as pm

    with pm.Model() as model:
        v = pm.InverseGamma("v", 2.0, 1.0)
        w = pm.Normal("w", 0.0, 2.0 * v**0.5, shape=3)
        pm.Normal("y", DESIGN @ w, v**0.5, observed=RESPONSE)
    return model


ROWS = np.random.default_rng(1).standard_normal((8, 2)) @ np.array([[1.0, 0.0], [0.7, 0.8]]).T


def _wishart():
    """Rows ~ N(0, inverse of P) with P ~ Wishart(5, I)."""
    df, num = 5.0, len(ROWS)
    exact = -num * np.log(np.pi) + multigammaln((df + num) / 2, 2) - multigammaln(df / 2, 2)
    exact += -(df + num) / 2 * np.linalg.slogdet(np.eye(2) + ROWS.T @ ROWS)[1]

    def log_likelihood(p):
        return dist.MultivariateNormal(jnp.zeros(2), precision_matrix=p["P"]).log_prob(ROWS).sum()

    def model(y):
        precision = numpyro.sample("P", dist.Wishart(df, jnp.eye(2)))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), precision_matrix=precision), obs=y)

    own = from_prior({"P": dist.Wishart(df, jnp.eye(2))}, log_likelihood)
    return "normal with Wishart prior", exact, {"prior objects": own, "NumPyro": from_numpyro(model, jnp.asarray(ROWS))}


def _lkj():
    """Unit scales and a correlation with LKJ(2) prior, 3/4 (1 - r^2): by quadrature."""
    cross, squares = float(np.sum(ROWS[:, 0] * ROWS[:, 1])), float(np.sum(ROWS**2))

    def density(r):
        log_likelihood = -len(ROWS) * (np.log(2 * np.pi) + 0.5 * np.log1p(-(r**2)))
        return 0.75 * (1 - r**2) * np.exp(log_likelihood - 0.5 * (squares - 2 * r * cross) / (1 - r**2) + 20)

    exact = np.log(quad(density, -1, 1, epsabs=0, epsrel=1e-10)[0]) - 20

    def model(y):
        chol = numpyro.sample("chol", dist.LKJCholesky(2, 2.0))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), scale_tril=chol), obs=y)

    own = from_prior(
        {"chol": dist.LKJCholesky(2, 2.0)},
        lambda p: dist.MultivariateNormal(jnp.zeros(2), scale_tril=p["chol"]).log_prob(ROWS).sum(),
    )
    return "normal with LKJ prior", exact, {"prior objects": own, "NumPyro": from_numpyro(model, jnp.asarray(ROWS))}


# Posteriors for NUTS.


class Posterior(NamedTuple):
    """A NumPyro model with its arguments, and its log evidence."""

    model: Callable[..., Any]
    args: tuple[Any, ...]
    exact: float

    def own(self) -> Any:
        return from_numpyro(self.model, *self.args)


def _pima(predictors: Any, labels: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0, 5).expand([predictors.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=predictors @ w), obs=labels)


def _schools(scales: Any, effects: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, scales), obs=effects)


EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SCALES = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def _schools_exact() -> float:
    """Given tau the effects are jointly normal; tau by quadrature."""

    def density(tau):
        cov = np.diag(SCALES**2 + tau**2) + 25.0
        value = -0.5 * (EFFECTS @ np.linalg.solve(cov, EFFECTS) + np.linalg.slogdet(2 * np.pi * cov)[1])
        return np.exp(value + 31) * 2 / (np.pi * 5 * (1 + (tau / 5) ** 2))

    return float(np.log(quad(density, 0, 100, epsrel=1e-10, limit=200)[0] + quad(density, 100, np.inf)[0]) - 31)


_DATA = load("pima")
PIMA = Posterior(_pima, (jnp.asarray(_DATA.predictors), jnp.asarray((_DATA.labels + 1) / 2)), -391.495)
SCHOOLS = Posterior(_schools, (jnp.asarray(SCALES), jnp.asarray(EFFECTS)), _schools_exact())
SLOPES = Posterior(regression, (jnp.asarray(DESIGN), jnp.asarray(RESPONSE)), float(_inverse_gamma_regression()[1]))
assert jax.config.read("jax_enable_x64")
