"""Draw the pictures of docs/gallery.md: `python tools/make_gallery.py`. It runs each model, about a minute in all."""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpyro.distributions as dist
import scipy.stats as st

import qpaths as qp
from qpaths.plotting import plot_compare, plot_islands, plot_posterior, plot_run

mpl.use("Agg")

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
GROUPS = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def bounded(key):
    prior = {"rate": st.beta(1, 1), "share": st.uniform(0, 1), "tau": st.halfcauchy(0, 25)}
    return qp.evidence(
        prior=prior,
        log_likelihood=lambda p: (
            2 * jnp.log(p["rate"]) + 38 * jnp.log1p(-p["rate"]) - 200 * (p["share"] - 1.02) ** 2 - 5 * p["tau"]
        ),
        key=key,
    )


def bimodal(key):
    def log_density(x):
        near, far = jnp.sum((x + 2) ** 2) / 0.25, jnp.sum((x - 3) ** 2) / 0.09
        return jnp.logaddexp(jnp.log(0.7) - 0.5 * near, jnp.log(0.3) - 0.5 * far)

    return qp.evidence(qp.MultivariateNormal(jnp.zeros(3), 9 * jnp.eye(3)), log_density, key=key)


def schools(key):
    prior = {"mu": dist.Normal(0, 5), "tau": dist.HalfCauchy(5), "z": dist.Normal(0, 1).expand([8]).to_event(1)}
    return qp.evidence(
        prior=prior,
        log_likelihood=lambda p: jnp.sum(jax.scipy.stats.norm.logpdf(GROUPS, p["mu"] + p["tau"] * p["z"], ERRORS)),
        key=key,
    )


def equal_schools(key):
    return qp.evidence(
        prior={"mu": qp.Normal(0.0, 5.0)},
        log_likelihood=lambda p: jnp.sum(jax.scipy.stats.norm.logpdf(GROUPS, p["mu"], ERRORS)),
        key=key,
    )


def tempered(key):
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    path = qp.GeometricPath(base, lambda x: -8 * jnp.sum((x - 1) ** 2))
    return qp.SMC(1024, qp.AdaptiveSchedule(0.5), qp.RandomWalk(5)).run(path, key=key)


def save(name, axes):
    figure = (axes if hasattr(axes, "figure") else axes.flat[0]).figure
    figure.savefig(FOLDER / f"gallery_{name}.png", dpi=100)
    mpl.pyplot.close(figure)


def main():
    jax.config.update("jax_enable_x64", True)
    key = jax.random.key(0)
    differ, agree = schools(key), equal_schools(key)
    save("posterior", plot_posterior(bounded(key)))
    save("modes", plot_posterior(bimodal(key)))
    save("panels", plot_posterior(differ))
    save("weights", plot_run(differ))
    save("run", plot_run(tempered(key)))
    save("islands", plot_islands(agree))
    save("compare", plot_compare(qp.compare({"differ": differ, "agree": agree})))


if __name__ == "__main__":
    main()
