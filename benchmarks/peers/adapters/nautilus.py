"""nautilus: importance nested sampling with neural networks."""

TITLE = "nautilus"
REQUIREMENTS = ["nautilus-sampler"]
PACKAGES = ["nautilus-sampler"]
MODULES = ["nautilus"]
NAMESPACE = "numpy"
SETTINGS = {
    "default": "`Sampler` with 2,000 live points, `run` to an effective sample size of 10,000",
    "more": "`run(n_eff=40_000, discard_exploration=True)`",
}
NOTE = "It reports no error bar; one over the root of its effective sample size takes its place."
OPTIONS = {"default": {}, "more": {"n_eff": 40_000, "discard_exploration": True}}


def run(problem, seed, effort):
    from nautilus import Sampler
    from scipy.special import ndtri

    sampler = Sampler(
        lambda u: problem.from_normal(ndtri(u)),
        problem.log_likelihood,
        n_dim=problem.dimension,
        vectorized=True,
        pass_dict=False,
        seed=seed,
    )
    sampler.run(**OPTIONS[effort])
    return {"log_evidence": float(sampler.log_z), "se": sampler.n_eff**-0.5, "evaluations": int(sampler.n_like)}
