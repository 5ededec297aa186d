"""harmonic: the learned harmonic mean of NumPyro's NUTS draws, with a rational quadratic spline flow."""

TITLE = "harmonic, NUTS"
REQUIREMENTS = ["harmonic", "numpyro"]
PACKAGES = ["harmonic", "numpyro"]
MODULES = ["jax", "numpyro", "harmonic"]
NAMESPACE = "jax"
SETTINGS = {
    "default": "20 chains of 1,000 NUTS draws, half of them to train `RQSplineModel` in 20 epochs",
    "more": "5,000 draws in each chain",
}
NOTE = "The documentation leaves the draws to the user."
OPTIONS = {"default": 1000, "more": 5000}
NUM_CHAINS, NUM_WARMUP = 20, 1000


def run(problem, seed, effort):
    import harmonic as hm
    import jax
    import numpy as np
    from numpyro.infer import MCMC, NUTS

    hm.logs.setup_logging(default_level=40)
    first, second = jax.random.split(jax.random.key(seed))
    mcmc = MCMC(
        NUTS(potential_fn=lambda x: -problem.log_target(x)),
        num_warmup=NUM_WARMUP,
        num_samples=OPTIONS[effort],
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = problem.from_normal(jax.random.normal(first, (NUM_CHAINS, problem.dimension)))
    mcmc.run(second, init_params=start, extra_fields=("num_steps", "potential_energy"))
    fields = mcmc.get_extra_fields(group_by_chain=True)
    chains = hm.Chains(problem.dimension)
    chains.add_chains_3d(
        np.asarray(mcmc.get_samples(group_by_chain=True), float), -np.asarray(fields["potential_energy"], float)
    )
    train, infer = hm.utils.split_data(chains, training_proportion=0.5)
    model = hm.model.RQSplineModel(problem.dimension, standardize=True, temperature=0.8)
    model.fit(train.samples, epochs=20, verbose=False)
    evidence = hm.Evidence(infer.nchains, model)
    evidence.add_chains(infer)
    errors = np.abs(evidence.compute_ln_inv_evidence_errors())
    # The steps of the warm-up are not reported; those of the draws stand for them.
    steps = float(np.mean(fields["num_steps"])) * NUM_CHAINS * (NUM_WARMUP + OPTIONS[effort])
    return {
        "log_evidence": -float(evidence.ln_evidence_inv),
        "se": float(np.mean(errors)),
        "evaluations": int(2 * steps),
    }
