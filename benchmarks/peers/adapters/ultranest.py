"""UltraNest: reactive nested sampling; slice sampling in more than ten dimensions, as its documentation advises."""

TITLE = "UltraNest"
REQUIREMENTS = ["ultranest", "scipy"]
PACKAGES = ["ultranest"]
MODULES = ["ultranest", "ultranest.stepsampler"]
NAMESPACE = "numpy"
SETTINGS = {
    "default": "`ReactiveNestedSampler`, 400 live points; above ten dimensions `SliceSampler(nsteps=2 * dimension)`",
    "more": "1,600 live points, `nsteps=4 * dimension`",
}
OPTIONS = {"default": (400, 2), "more": (1600, 4)}


def run(problem, seed, effort):
    import logging

    import numpy as np
    from scipy.special import ndtri
    from ultranest import ReactiveNestedSampler, stepsampler

    logging.getLogger("ultranest").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002 (UltraNest draws from the global state)
    num_live, steps = OPTIONS[effort]
    sampler = ReactiveNestedSampler(
        [f"x{index}" for index in range(problem.dimension)],
        problem.log_likelihood,
        lambda u: problem.from_normal(ndtri(u)),
        vectorized=True,
    )
    if problem.dimension > 10:
        sampler.stepsampler = stepsampler.SliceSampler(
            nsteps=steps * problem.dimension,
            generate_direction=stepsampler.generate_mixture_random_direction,
        )
    found = sampler.run(min_num_live_points=num_live, show_status=False, viz_callback=False)
    return {
        "log_evidence": float(found["logz"]),
        "se": float(found["logzerr"]),
        "evaluations": int(found["ncall"]),
    }
