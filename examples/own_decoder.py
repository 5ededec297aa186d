"""Your own generative model: bounds on log p(x) for a plain-JAX decoder that knows nothing of qpaths."""

import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.models import DecoderProblem, evaluate_bounds, simulate, standard_normal

NUM_LATENT, NUM_HIDDEN, NUM_COUNTS = 4, 16, 30


class PoissonDecoder:
    """Counts with rates exp(network(z)): any likelihood will do, as long as it can be evaluated and drawn from."""

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
latents, counts = simulate(
    decoder, 50, key=jax.random.key(1), prior=prior
)  # exact posterior draws, for the upper bound
algorithm = qp.BDMC(10, qp.LinearSchedule(50), qp.HMC(num_leapfrog=5, step_size=0.2, preconditioner="none"))
problem = DecoderProblem(decoder, q=0.99, prior=prior)
bounds = evaluate_bounds(problem, counts, latents, algorithm, key=jax.random.key(2))
print(f"{float(bounds.lower.mean()):.3f} <= mean log p(x) <= {float(bounds.upper.mean()):.3f} nats")
