"""BlackJAX: adaptive tempered SMC; the moves propose from a normal distribution fitted to the particles.

As in "Tuning inner kernel parameters of SMC" in BlackJAX's Sampling Book: 4,000 particles, target ESS 0.5.
"""

TITLE = "BlackJAX SMC"
REQUIREMENTS = ["blackjax"]
PACKAGES = ["blackjax"]
MODULES = ["jax", "blackjax"]
NAMESPACE = "jax"
SETTINGS = {
    "default": "`inner_kernel_tuning` of `adaptive_tempered_smc`, 4,000 particles, `num_mcmc_steps=10`",
    "more": "`num_mcmc_steps=50`, as in the Sampling Book",
}
NOTE = "It reports no error bar, and leaves the kernel and its settings to the user; these are the Sampling Book's."
OPTIONS = {"default": 10, "more": 50}
NUM_PARTICLES = 4000


def run(problem, seed, effort):
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.smc import extend_params
    from blackjax.smc.resampling import systematic
    from blackjax.smc.tuning.from_particles import particles_covariance_matrix, particles_means

    kernel = blackjax.irmh.build_kernel()
    normal = jax.scipy.stats.multivariate_normal

    def step(key, state, logdensity, means, cov):
        return kernel(
            key,
            state,
            logdensity,
            lambda key: jax.random.multivariate_normal(key, means, cov),
            lambda proposal, state: normal.logpdf(state.position, means, cov),
        )

    def fitted(particles):
        return extend_params({"means": particles_means(particles), "cov": particles_covariance_matrix(particles)})

    first, second = jax.random.split(jax.random.key(seed))
    particles = problem.from_normal(jax.random.normal(first, (NUM_PARTICLES, problem.dimension)))
    algorithm = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=problem.log_prior,
        loglikelihood_fn=problem.log_likelihood,
        mcmc_step_fn=step,
        mcmc_init_fn=blackjax.irmh.init,
        resampling_fn=systematic,
        mcmc_parameter_update_fn=lambda key, state, info: fitted(state.particles),
        initial_parameter_value=fitted(particles),
        num_mcmc_steps=OPTIONS[effort],
        target_ess=0.5,
    )

    def body(carry):
        state, key, log_evidence, num = carry
        key, subkey = jax.random.split(key)
        state, info = algorithm.step(subkey, state)
        return state, key, log_evidence + info.log_likelihood_increment, num + 1

    start = (algorithm.init(particles), second, jnp.zeros(()), 0)
    *_, log_evidence, num = jax.jit(
        lambda carry: jax.lax.while_loop(lambda carry: carry[0].sampler_state.tempering_param < 1, body, carry)
    )(start)
    # The search for the next temperature and the weights evaluate the likelihood once more each.
    return {
        "log_evidence": float(log_evidence),
        "se": None,
        "evaluations": int(num) * NUM_PARTICLES * (OPTIONS[effort] + 3),
    }
