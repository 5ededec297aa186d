# %% [markdown]
# # Decoders on a GPU
#
# How well does a generative model explain an observation? For a decoder `p(x | z)` with a prior `p(z)`, the answer is
# `log p(x)`: the evidence of a model with data `x` and parameter `z`. Each observation is one problem, and a test set
# has thousands. They run at once, in one compiled program. Everything here runs on a CPU in seconds. On a GPU it is the
# same code.
#
# ## A decoder
#
# A decoder is any object with two methods, for one latent point and one observation: `log_likelihood(z, x)` and
# `sample(z, key)`. This one has counts with rates from a small network.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp
from qpaths.models import DecoderProblem, evaluate_bounds, simulate, standard_normal

NUM_LATENT, NUM_HIDDEN, NUM_COUNTS = 3, 16, 30


class PoissonDecoder:
    def __init__(self, key):
        first, second = jax.random.split(key)
        self.hidden = jax.random.normal(first, (NUM_LATENT, NUM_HIDDEN)) / NUM_LATENT**0.5
        self.output = jax.random.normal(second, (NUM_HIDDEN, NUM_COUNTS)) / NUM_HIDDEN**0.5

    def log_rates(self, z):
        return jnp.tanh(z @ self.hidden) @ self.output

    def log_likelihood(self, z, x):
        return jnp.sum(jax.scipy.stats.poisson.logpmf(x, jnp.exp(self.log_rates(z))))

    def sample(self, z, key):
        return jax.random.poisson(key, jnp.exp(self.log_rates(z))).astype(z.dtype)


decoder, prior = PoissonDecoder(jax.random.key(0)), standard_normal(NUM_LATENT)

# %% [markdown]
# ## Bounds from both sides
#
# For data that the model itself made, the latent point behind each observation is an exact draw from its posterior.
# Then bidirectional Monte Carlo bounds `log p(x)` from below and from above. The gap says how good the sampler is.

# %%
latents, counts = simulate(decoder, 20, key=jax.random.key(1), prior=prior)
kernel = qp.HMC(num_leapfrog=3, step_size=0.25, preconditioner="none")  # nothing to fit, so no pilots
problem = DecoderProblem(decoder, prior=prior)
bounds = evaluate_bounds(problem, counts, latents, qp.BDMC(8, qp.LinearSchedule(100), kernel), key=jax.random.key(2))
print(bounds.summary())
assert float(bounds.mean_gap[0]) < 1.0

# %% [markdown]
# With three latent coordinates a grid gives the exact answer for one observation:

# %%
axis = np.linspace(-4, 4, 33)
grid = jnp.asarray(np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3))
log_joint = jax.vmap(lambda z: prior.log_prob(z) + decoder.log_likelihood(z, counts[0]))(grid)
exact = float(jax.nn.logsumexp(log_joint) + 3 * np.log(axis[1] - axis[0]))
print(f"{float(bounds.averaged().lower[0]):.2f} <= {exact:.2f} <= {float(bounds.averaged().upper[0]):.2f}")
assert bounds.averaged().lower[0] - 0.3 < exact < bounds.averaged().upper[0] + 0.3

# %% [markdown]
# ## Real observations
#
# Real data have no exact posterior draw, so there is a lower bound only. `evaluate_lower` is the forward half of the
# above.
#
#     lower = evaluate_lower(problem, x, qp.AIS(8, qp.LinearSchedule(100), kernel), key=key)
#
# ## Tune once for all
#
# Step sizes and betas matter more than anything else. `tune` runs pilots on a few simulated observations and returns a
# schedule and a frozen kernel for all of them:
#
#     tuned = qp.tune(problem, problems=pilot_counts, target_samples=pilot_latents, num_gradients=1000, key=key)
#     algorithm = qp.BDMC(10, tuned.schedule, tuned.kernel)
#     bounds = evaluate_bounds(tuned.path, counts, latents, algorithm, key=key)
#
# On the decoder of the paper, with 500 distributions of 10 leapfrog steps, this brings the gap from 7.1 nats to 0.12
# ([Experiments](../experiments.md#generative-models)).
#
# ## On a GPU
#
# Install a JAX with CUDA, and run the same lines. Four things help:
#
# - **Many at once.** `evaluate_bounds` anneals `batch_size` observations at a time, and halves it where memory runs
#     out.
# - **Guide.** `DecoderProblem(decoder, guide=low_precision(decoder))` takes the gradients from a copy in bfloat16, and
#     the bounds stay exact. On one H200 this makes 12.4 million transitions per second, against 3.3 in float32 alone
#     and 3.2 in compiled PyTorch (`benchmarks/results/gpu.md`).
# - **One compilation.** Observations are arrays in the program. A new batch of the same size compiles nothing.
# - **Products with the weights on the right**, `z @ W`, not `W @ z`.
#
# [Generative models](../models.md) has the details: encoders as base, weights from files, training, the released
# protocol.
#
# Next: [Experiments](../experiments.md): the paper's decoder, from one command
