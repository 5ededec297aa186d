"""NumPyro's nested sampler, which is built on jaxns."""

TITLE = "NumPyro, jaxns"
REQUIREMENTS = ["numpyro", "jaxns<3"]
PACKAGES = ["numpyro", "jaxns"]
MODULES = ["jax", "numpyro", "numpyro.contrib.nested_sampling"]
NAMESPACE = "jax"
SETTINGS = {
    "default": "`NestedSampler`: 25 live points for each dimension, 10,000 samples at most",
    "more": "100 live points for each dimension, 100,000 samples at most",
}
NOTE = "The wrapper in NumPyro does not work with jaxns 3, so version 2 runs."
OPTIONS = {"default": None, "more": (100, 1e5)}


def run(problem, seed, effort):
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.contrib.nested_sampling import NestedSampler

    def model():
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([problem.dimension]))
        numpyro.factor("log_likelihood", problem.log_likelihood(problem.from_normal(z)))

    options = None
    if OPTIONS[effort] is not None:
        per_dimension, num_samples = OPTIONS[effort]
        options = {"num_live_points": per_dimension * problem.dimension, "max_samples": num_samples}
    sampler = NestedSampler(model, constructor_kwargs=options)
    sampler.run(jax.random.PRNGKey(seed))
    found = sampler._results
    return {
        "log_evidence": float(found.log_Z_mean),
        "se": float(found.log_Z_uncert),
        "evaluations": int(found.total_num_likelihood_evaluations),
    }
