"""TensorFlow Probability on JAX: `sample_sequential_monte_carlo`. It reports no error bar."""

TITLE = "TFP SMC"
REQUIREMENTS = ["tfp-nightly", "jax"]
PACKAGES = ["tfp-nightly"]
MODULES = ["jax", "tensorflow_probability.substrates.jax"]
NAMESPACE = "jax"
SETTINGS = {
    "default": "`sample_sequential_monte_carlo`, 4,000 particles, random-walk moves",
    "more": "the same with HMC moves (`gen_make_hmc_kernel_fn`), tuned to an acceptance of 0.651",
}
NOTE = (
    "The released version 0.25 does not import with this JAX, so the nightly one runs. There is no default number of "
    "particles. Its log evidence counts the last stage up to an inverse temperature of 2 where the weights allow it: a "
    "constant likelihood of exp(5) has the log evidence 10. That explains errors of several nats."
)
NUM_PARTICLES = 4000


def run(problem, seed, effort):
    import functools

    import jax
    import tensorflow_probability.substrates.jax as tfp

    mcmc = tfp.experimental.mcmc
    options, weight = {}, 1
    if effort == "more":
        tuning = functools.partial(mcmc.simple_heuristic_tuning, optimal_accept=0.651)
        options, weight = {"make_kernel_fn": mcmc.gen_make_hmc_kernel_fn(), "tuning_fn": tuning}, 2
    calls = []

    def log_likelihood(x):
        jax.debug.callback(lambda: calls.append(NUM_PARTICLES))
        return problem.log_likelihood(x)

    @jax.jit
    def sample(key):
        first, second = jax.random.split(key)
        start = problem.from_normal(jax.random.normal(first, (NUM_PARTICLES, problem.dimension)))
        *_, found = mcmc.sample_sequential_monte_carlo(problem.log_prior, log_likelihood, start, seed=second, **options)
        return found.log_marginal_likelihood, found.inverse_temperature

    log_evidence, temperature = sample(jax.random.PRNGKey(seed))
    jax.effects_barrier()
    if temperature < 1:
        raise RuntimeError(f"the last of 100 stages has the inverse temperature {temperature:.2g}")
    return {"log_evidence": float(log_evidence), "se": None, "evaluations": weight * sum(calls)}
