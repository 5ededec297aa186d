# %% [markdown]
# # Your first evidence
#
# The *evidence* of a model is the probability of the data under it, averaged over the prior:
#
# $$Z = \int p(y \mid x)\, p(x)\, dx .$$
#
# It is also called the marginal likelihood. Two models of the same data are compared by their evidences. The number is
# hard to compute, because the likelihood is tiny in most of the prior. `qpaths.evidence` estimates `log Z`, with a
# standard error and a verdict on itself.
#
# ## A model
#
# We measured a length four times. The model has a mean `mu` and a spread `sigma`. Give each a prior, and write the
# likelihood as a function of the variables by name.

# %%
import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import qpaths as qp

y = jnp.array([9.8, 10.4, 10.1, 11.2])
prior = {"mu": dist.Normal(8, 3), "sigma": dist.HalfNormal(2)}


def log_likelihood(p, y):
    return dist.Normal(p["mu"], p["sigma"]).log_prob(y).sum()


result = qp.evidence(prior=prior, log_likelihood=log_likelihood, data=y, key=jax.random.key(0))
print(result.summary())

# %% [markdown]
# ## How to read it
#
# - The first line is the answer: the log evidence in nats, with its standard error. Two of them are a 95 % interval.
# - *Effective* is how many independent draws from the posterior the weighted draws are worth.
# - `stopped` says why the call ended: by default at a standard error of 0.005 or after a million evaluations of the
#     model, a gradient counted as two. *Pilots* are the short runs that choose the settings.
# - `mu` and `sigma` have their median and the interval with 90 % of the posterior.
# - `print(result.verdict)` also says what was chosen. Here the sampler starts from a distribution that was fitted to the
#     posterior, so close that weights alone turn its draws into posterior draws.
# - `nothing looks unreliable` sums up the checks. The answer is the mean over independent runs, called *islands*, and
#     these agree.
# - `verdict` is `sound`, `doubtful` or `wrong`. [Is the number right?](is_it_right.md) explains it.
#
# With two variables we can check the answer by summing over a fine grid.

# %%
mu, sigma = jnp.linspace(-5, 25, 1500)[:, None], jnp.linspace(0.01, 12, 1500)
log_joint = dist.Normal(8, 3).log_prob(mu) + dist.HalfNormal(2).log_prob(sigma)
log_joint += sum(dist.Normal(mu, sigma).log_prob(value) for value in y)
cell = (mu[1, 0] - mu[0, 0]) * (sigma[1] - sigma[0])
exact = float(jax.nn.logsumexp(log_joint) + jnp.log(cell))
print(f"on a grid: {exact:.4f}")
assert abs(result.log_evidence - exact) < 4 * result.log_evidence_se

# %% [markdown]
# ## The posterior comes with it
#
# `result.samples` has the variables by name, in their own units. Each draw has a weight, so use `result.log_weights` in
# averages. The plots do.

# %% picture: Histograms of mu and sigma under the posterior, and a scatter plot of the two. mu lies near 10.3, sigma near 0.8 with a long tail.
weights = jax.nn.softmax(result.log_weights)
print(f"mean of mu: {float(jnp.sum(weights * result.samples['mu'])):.2f}")

from qpaths.plotting import plot_posterior

plot_posterior(result)

# %% [markdown]
# ## More accuracy
#
# Ask for a smaller standard error, or give a limit: `budget` counts evaluations, `seconds` counts time from the call
# on. This call takes about a second, because the model is already compiled. New data of the same shape need no new
# compilation either.

# %%
finer = qp.evidence(prior=prior, log_likelihood=log_likelihood, data=y, standard_error=0.002, key=jax.random.key(1))
print(f"{finer.log_evidence:.4f} +- {finer.log_evidence_se:.4f} with {finer.num_evaluations.total:,} evaluations")

# %% [markdown]
# ## Save it
#
# `result.save("first.npz")` writes a file, and `qp.load_result("first.npz")` reads it. `result.to_arviz()` goes to
# ArviZ.
#
# The same model can run from the command line. Put `prior`, `log_likelihood` and `data` into a file `model.py`:
#
#     qpaths evidence model.py --out results
#
# Next: [Is the number right?](is_it_right.md)
