"""dynesty: static nested sampling, the way of sampling chosen by dimension (`sample="auto"`)."""

TITLE = "dynesty"
REQUIREMENTS = ["dynesty"]
PACKAGES = ["dynesty"]
MODULES = ["dynesty"]
NAMESPACE = "numpy"
SETTINGS = {
    "default": "`NestedSampler` with 500 live points",
    "more": "2,000 live points and `dlogz=0.01`",
}
OPTIONS = {"default": ({}, {}), "more": ({"nlive": 2000}, {"dlogz": 0.01})}


def run(problem, seed, effort):
    import dynesty
    import numpy as np
    from scipy.special import ndtri

    of_sampler, of_run = OPTIONS[effort]
    sampler = dynesty.NestedSampler(
        problem.log_likelihood,
        lambda u: problem.from_normal(ndtri(u)),
        problem.dimension,
        rstate=np.random.default_rng(seed),
        **of_sampler,
    )
    sampler.run_nested(print_progress=False, **of_run)
    found = sampler.results
    return {
        "log_evidence": float(found.logz[-1]),
        "se": float(found.logzerr[-1]),
        "evaluations": int(np.sum(found.ncall)),
    }
