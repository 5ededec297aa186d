# %% [markdown]
# # Compare models
#
# The ratio of two evidences is the Bayes factor: how much better one model predicts the data than the other. A model
# pays for each parameter that it does not need, because its prior spreads over predictions that did not happen.
#
# ## A line or a constant?
#
# We take 20 noisy points on a line. The models are polynomials of degree 0, 1 and 2: they differ in the columns of their
# design matrix.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import qpaths as qp
from qpaths.plotting import plot_compare

x = np.linspace(-1, 1, 20)
y = 0.5 + 0.6 * x + 0.4 * np.random.default_rng(0).standard_normal(20)
powers = {"constant": 1, "linear": 2, "quadratic": 3}


def log_likelihood(p, y):
    columns = jnp.asarray(x)[:, None] ** jnp.arange(p["w"].shape[0])
    return dist.Normal(columns @ p["w"], 0.4).log_prob(y).sum()


results = {
    name: qp.evidence(
        prior={"w": dist.Normal(0, 1).expand([num])},
        log_likelihood=log_likelihood,
        data=jnp.asarray(y),
        budget=50_000,
        key=jax.random.key(0),
    )
    for name, num in powers.items()
}
table = qp.compare(results)
print(table)

# %% [markdown]
# The table has the log evidences, the log Bayes factors against the best model, and the probabilities of the models if
# all were equally likely beforehand, with an interval for the errors. `table.conclusion` says which model has the
# higher evidence, or that the standard errors are too large to tell. `qp.compare(results, prior={"constant": 0.5,
# ...})` takes other prior probabilities.
#
# These models have closed forms: `y` is normal, with a covariance that each design matrix implies. So the table can be
# checked.


# %%
def exact(num):
    columns = x[:, None] ** np.arange(num)
    cov = columns @ columns.T + 0.16 * np.eye(20)
    return -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2 * np.pi * cov)[1])


difference, error = table.log_bayes_factor("linear", "constant")
print(f"linear against constant: {difference:.3f} +- {error:.3f}, exact {exact(2) - exact(1):.3f}")
assert abs(difference - (exact(2) - exact(1))) < 4 * error

# %% picture: Log evidences of three models relative to the best, with error bars. The linear model is best, the quadratic one a little lower, the constant far lower.
plot_compare(table, ax=plt.subplots(layout="constrained")[1])

# %% [markdown]
# ## What goes wrong in practice
#
# - **Different data.** A Bayes factor compares models of the *same* data. Results that know their data (`data=...`,
#   NumPyro and PyMC models) are checked, and different data are an error.
# - **Priors matter.** A prior that is ten times wider costs about `log 10` nats for each parameter that the data
#   determine. Compare models only with priors that you would defend.
# - **A doubtful evidence** makes a doubtful comparison. The table names such results.
#
# `table.to_pandas()` returns a data frame, and `table.probabilities` and `table.intervals` the numbers. From the
# command line, for folders that `qpaths evidence` wrote:
#
#     qpaths compare out/first out/second --picture both.png
#
# Next: [Your own model](your_own_model.md)
