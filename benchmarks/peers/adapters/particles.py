"""particles: waste-free SMC with random-walk moves, and its variance estimate from a single run."""

TITLE = "particles"
REQUIREMENTS = ["particles==0.4", "numpy<2"]
PACKAGES = ["particles"]
MODULES = ["particles", "particles.smc_samplers"]
NAMESPACE = "numpy"
SETTINGS = {
    "default": "`AdaptiveTempering(len_chain=100)`, `SMC(N=200)`, as in the documentation of `smc_samplers`",
    "more": "`len_chain=1000`",
}
NOTE = "It needs NumPy 1. The error bar is its estimate from a single run, `Var_logLt`."
OPTIONS = {"default": 100, "more": 1000}


def run(problem, seed, effort):
    import numpy as np
    import particles
    from particles import distributions, smc_samplers

    class Prior(distributions.ProbDist):
        dim = problem.dimension

        def rvs(self, size=1):
            return problem.from_normal(np.random.standard_normal((size, problem.dimension)))  # noqa: NPY002

        def logpdf(self, x):
            return problem.log_prior(x)

    class Bridge(smc_samplers.TemperingBridge):
        evaluations = 0

        def logtarget(self, theta):
            Bridge.evaluations += len(theta)
            return problem.log_target(theta)

    np.random.seed(seed)  # noqa: NPY002 (particles draws from the global state)
    path = smc_samplers.AdaptiveTempering(model=Bridge(base_dist=Prior()), len_chain=OPTIONS[effort])
    algorithm = particles.SMC(fk=path, N=200, collect=[smc_samplers.Var_logLt()])
    algorithm.run()
    # `Var_logLt` collects asymptotic variances: the number of particles times the variance.
    num_particles = len(algorithm.W)
    return {
        "log_evidence": float(algorithm.logLt),
        "se": float(algorithm.summaries.var_logLt[-1] / num_particles) ** 0.5,
        "evaluations": Bridge.evaluations,
    }
