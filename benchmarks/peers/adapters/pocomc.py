"""pocoMC: preconditioned Monte Carlo with a normalizing flow, then importance sampling from the flow."""

TITLE = "pocoMC"
REQUIREMENTS = ["pocomc"]
PACKAGES = ["pocomc", "torch"]
MODULES = ["pocomc"]
NAMESPACE = "numpy"
SETTINGS = {
    "default": "`Sampler` with `n_effective=512`, `run(n_total=4096, n_evidence=4096)`",
    "more": "`n_effective=2048, n_active=1024`, `run(n_total=16_384, n_evidence=16_384)`",
}
OPTIONS = {
    "default": ({}, {}),
    "more": ({"n_effective": 2048, "n_active": 1024}, {"n_total": 16_384, "n_evidence": 16_384}),
}


def run(problem, seed, effort):
    import numpy as np
    import pocomc

    rng = np.random.default_rng(seed)
    num_points = [0]

    class Prior:
        dim = problem.dimension
        bounds = np.array([[-np.inf, np.inf]] * problem.dimension)

        def logpdf(self, x):
            return problem.log_prior(x)

        def rvs(self, size=1):
            return problem.from_normal(rng.standard_normal((size, problem.dimension)))

    def log_likelihood(x):
        num_points[0] += len(x)
        return problem.log_likelihood(x)

    of_sampler, of_run = OPTIONS[effort]
    sampler = pocomc.Sampler(Prior(), log_likelihood, vectorize=True, random_state=seed, **of_sampler)
    sampler.run(progress=False, **of_run)
    log_evidence, error = sampler.evidence()
    return {
        "log_evidence": float(log_evidence),
        "se": None if error is None else float(error),
        "evaluations": num_points[0],
    }
