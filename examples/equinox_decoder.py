"""A decoder from Equinox: bounds on log p(x) of a model whose network is any Equinox module."""

import equinox as eqx
import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.models import DecoderProblem, evaluate_bounds, simulate


class Decoder(eqx.Module):
    """Pixels that are 0 or 1, with logits from a network."""

    network: eqx.nn.MLP
    num_latent: int = eqx.field(static=True)  # with it the prior is N(0, I)

    def __init__(self, num_latent, num_pixels, *, key):
        self.network = eqx.nn.MLP(num_latent, num_pixels, width_size=32, depth=2, activation=jnp.tanh, key=key)
        self.num_latent = num_latent

    def log_likelihood(self, z, x):
        logits = self.network(z)
        return jnp.sum(x * logits - jax.nn.softplus(logits))

    def sample(self, z, key):
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.network(z))).astype(z.dtype)


decoder = Decoder(5, 64, key=jax.random.key(0))
latents, images = simulate(decoder, 100, key=jax.random.key(1))  # exact posterior draws, for the upper bound
kernel = qp.HMC(num_leapfrog=5, step_size=0.4, preconditioner="none")
algorithm = qp.BDMC(8, qp.LinearSchedule(30), kernel)
bounds = evaluate_bounds(
    DecoderProblem(decoder), images, latents, algorithm, key=jax.random.key(2), batch_size=50, progress=True
)
print(bounds.summary())
