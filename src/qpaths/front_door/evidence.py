"""The log evidence of a model: pilots, islands, checks, verdict."""

import dataclasses
import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._types import LogDensity, LogLikelihood, PRNGKey, PyTree, Sampler, Simulator
from ..adapters.model import Model
from ..algorithms.islands import NUM_ISLANDS, cost_of_islands, run_islands
from ..cost import Cost
from ..densities import Backend, DensityLike, forgiving_in, has_gradient
from ..kernels import HMC, AbstractKernel, RandomWalk
from ..paths import AbstractPath
from ..progress import Show, display
from ..recipe import check_parts
from ..references.known import distinct
from ..remarks import Finding, Note, Remark, Stop
from ..results import CollapsedError, Result, Status
from ..rows import Layout, LostWorkersError, evaluator_of, spread_over, stream_for
from ..search import tune_population
from ..verdict import Verdict
from .certificate import certify, simulated_from
from .checkpoint import CallState, File
from .endpoints import (
    check_alone,
    check_not_on_simplex,
    first_sentence,
    in_units_of,
    model_path,
    named_model,
    path_given,
    with_blind_ends,
    with_names,
)
from .findings import findings
from .inputs import pace, probe
from .limits import Limits
from .look import Checks, look
from .sampler import coordinate_names

_AGAIN_SHARE = 0.3
"""Of the budget, what must be left for another search when the draws miss known modes."""
_BLIND_STEPS = 10
"""Random-walk moves at each beta where there is no gradient."""


def evidence(
    base: DensityLike | LogDensity | Model | None = None,
    target: DensityLike | LogDensity | None = None,
    *,
    key: PRNGKey,
    log_prior: LogDensity | None = None,
    log_likelihood: LogLikelihood | None = None,
    sample_prior: Sampler | None = None,
    prior: Mapping[str, Any] | None = None,
    data: PyTree | None = None,
    simulate: Simulator | None = None,
    path: AbstractPath[Any] | None = None,
    backend: Backend = "jax",
    budget: int | None = None,
    seconds: float | int | None = None,
    standard_error: float | int | None = None,
    kernel: AbstractKernel[Any] | None = None,
    reference: bool = True,
    executor: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Result:
    """The log evidence of a model with its standard error, posterior draws, and a verdict in plain words.

    There are five ways to give a model: a `prior` of distributions by name with a `log_likelihood`; a model of
    `qpaths.adapters` as the first argument; `log_prior`, `log_likelihood` and `sample_prior`; a `base` and a `target`;
    or a `path`.

    Pilots choose where to anneal from, the path, its schedule and the kernel (`qpaths.tune`); then independent
    islands of SMC run with these settings frozen, until the standard error is small enough or the budget is spent.
    Each island's estimate of the evidence (not of its log) is unbiased, whatever the pilots chose. So is their mean
    if the budget ends the run. A run that stops at a standard error looks at what it found to decide when to stop,
    and its mean is a little low (by 0.04 to 0.15 of that standard error where it was measured).

    Args:
        base: A normalized density that can be sampled, or a model of `from_numpyro`, `from_pymc` or `from_prior`.
        target: The unnormalized target; its integral is the evidence.
        key: A `jax.random.key`. The same key gives the same answer.
        log_prior: The normalized log density of the prior at one point.
        log_likelihood: `log_likelihood(x)`, or `log_likelihood(x, data)` with `data`; `x` has the variables by name
            where `prior` has names.
        sample_prior: `sample_prior(key)` draws one point from the prior.
        prior: A distribution for each variable, of NumPyro, SciPy or `qpaths`.
        data: What was observed. Other data of the same shape compile nothing.
        simulate: `simulate(key, x)` draws data given a point. The same procedure then runs on simulated data, outside
            the budget, and bidirectional Monte Carlo bounds its error from both sides.
        path: A path from its base to its target. If it is long and has an order q, others are tried.
        backend: `"numpy"` calls the functions as they are, instead of tracing them with JAX.
        budget: The most evaluations of the target, a gradient counted as two, pilots included; a million by default.
        seconds: Another limit, counted from the call on. Pilots and a first batch always run.
        standard_error: What is good enough; 0.005 by default. With it alone there is no limit, unless the call would
            take more than a hundred million evaluations.
        kernel: Moves the particles; HMC by default, a random walk where there is no gradient.
        reference: False always anneals from the base. Then the base must cover the target.
        checkpoint: A file that is written after the pilots and after each batch. The same call continues from it.
        executor: Where points are evaluated: a pool of `concurrent.futures` (processes for NumPy functions), a Dask
            `Client`, or anything with the same `submit`. The numbers do not depend on it. By default, and for points
            that cost microseconds, this process evaluates them. What a worker held that dies is evaluated again.
        progress: Whether to show the batches on standard error.

    Returns:
        A `Result` with `log_evidence`, `log_evidence_se`, weighted `samples` and a `verdict`. The verdict says what was
        chosen and why, what looks unreliable, and what to do about it. What looks unreliable is also a warning. After
        Ctrl-C the result is that of the finished batches, with `status` UNFINISHED.

    No standard error accounts for a part of the target that no particle came near: see `docs/tutorials/is_it_right.md`.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> result = qp.evidence(
        ...     prior={"x": qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))},
        ...     log_likelihood=lambda p: -2.0 * jnp.sum((p["x"] - 1.0) ** 2),
        ...     budget=20_000,
        ...     key=jax.random.key(0),
        ... )
        >>> bool(abs(result.log_evidence - -2.4094) < 4 * result.log_evidence_se)  # -log 5 - 4/5
        True
        >>> str(result.verdict.level)
        'sound'
    """
    started = time.monotonic()
    limits = Limits.of(budget, seconds, standard_error)
    others = {"target": target, "log_prior": log_prior, "sample_prior": sample_prior, "path": path}
    model = named_model(base, prior, log_likelihood, data, others)
    likelihood = None
    if model is not None:
        path, likelihood, data = (
            path_given(model.prior, model.log_likelihood, model.data),
            model.log_likelihood,
            model.data,
        )
    elif path is not None:
        check_alone(path, others | {"base": base, "log_likelihood": log_likelihood, "data": data})
        reference = False
    else:
        path, likelihood = model_path(base, target, log_prior, log_likelihood, sample_prior, data, backend)
    if simulate is not None and (data is None or likelihood is None):
        raise ValueError("`simulate` needs `log_prior`, `log_likelihood(x, data)`, `sample_prior` and `data`.")
    excused = forgiving_in(path.base, path.target)
    for function in excused:
        function.reset()
    path, reasons = with_blind_ends(path)
    kernel, chosen = _kernel_for(path, reasons) if kernel is None else (kernel, ())
    check_parts(kernel)
    _check_gradients(kernel, reasons)
    stream = stream_for(key, path, pilots=True)
    tune_stream, run_stream, check_stream, certificate_stream = stream.split(4)
    evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
    file = File(checkpoint, path, kernel, evaluator.layout, key)
    check_not_on_simplex(evaluator, check_stream)
    with spread_over(executor), in_units_of(model):
        seen = probe(evaluator, check_stream)
        file.features = seen.features._asdict()
        _warn([*seen.findings, *seen.notes, *(note for note in chosen if note.kind is Note.NOT_DIFFERENTIABLE)])
        # A share of a base that is not normalized would make the reference neither one nor the other.
        reference = reference and seen.is_normalized
        simulated = None if simulate is None else simulated_from(path, likelihood, simulate, certificate_stream)
        if seconds is not None:
            limits = limits.paced(*pace(evaluator, kernel.with_slopes, check_stream), time.monotonic() - started)
        with display(progress) as show:
            state = file.read()
            if state is None:
                show("pilots", None)
                begun = time.monotonic()
                try:
                    recipe = tune_population(
                        path, key=tune_stream, budget=limits.finite_budget, kernel=kernel, reference=reference
                    )
                except CollapsedError as error:
                    return _nothing_found(evaluator.layout, error)
                state = CallState(recipe, None, 0)
                file.write(state)
                now, total = time.monotonic(), recipe.num_evaluations.total
                limits = limits.paced(total, now - begun, now - started, total)
                show(f"pilots: {_rate(recipe.num_evaluations, now - begun)}", None)
            extra = Cost()
            if simulated is not None:
                show("bounds on simulated data", None)
                bounds, extra = certify(simulated, limits.finite_budget, kernel, reference, certificate_stream)
                chosen += (bounds,)
            while True:
                state, spent, stopped = _run(state, limits, started, run_stream, file, show)
                assert state.islands is not None
                try:
                    checks, cost = look(evaluator, state, kernel, limits, spent + extra, started, check_stream)
                    left = limits.left(spent + extra + cost, time.monotonic() - started)
                    is_new = len(distinct(state.recipe.modes, checks.missing.modes)) > len(state.recipe.modes)
                    if not (reference and is_new and left > _AGAIN_SHARE * limits.finite_budget):
                        break
                    show("pilots again, with the modes that the draws miss", None)
                    modes = distinct(state.recipe.modes, checks.missing.modes)
                    num = int(min(left, limits.finite_budget))
                    recipe = tune_population(path, key=tune_stream, budget=num, kernel=kernel, known=modes)
                except (KeyboardInterrupt, LostWorkersError):
                    checks, cost = Checks(), Cost()
                    stopped = limits.interrupted(spent, state.recipe.num_evaluations)
                    break
                pilots = spent + cost + recipe.num_evaluations
                recipe = dataclasses.replace(recipe, num_evaluations=pilots)
                state = CallState(recipe, None, state.num_batches)
                file.write(state)
            islands, extra = state.islands, extra + cost
    stopped = stopped.with_values(spent=(spent + extra).total)
    found = findings(islands, state.recipe, checks, coordinate_names(evaluator.layout))
    found += [Finding.RAISED(num=f.num_failed, first=f.first) for f in excused if f.num_failed]
    _warn(found)
    if budget is not None and standard_error is not None and stopped.kind is Stop.BUDGET:
        words = f"the budget was too small for the standard error that you wanted: {stopped}"
        warnings.warn(f"evidence: {words}. Give a larger `budget` or a larger `standard_error`.", stacklevel=2)
    verdict = Verdict(stopped, chosen + state.recipe.notes + seen.notes, (*seen.findings, *found))
    status = Status.UNFINISHED if stopped.kind is Stop.INTERRUPTED else Status.OK
    result = islands.result(state.recipe.betas, checks.error, spent + extra, status, verdict)
    return with_names(result, model, data)


def _warn(found: list[Remark]) -> None:
    for finding in found:
        warnings.warn(f"evidence: {finding}.", stacklevel=3)


def _kernel_for(path: AbstractPath[Any], reasons: dict[str, str]) -> tuple[AbstractKernel[Any], tuple[Remark, ...]]:
    """Hamiltonian Monte Carlo, or a random walk where an endpoint has no gradient; and a note on the choice.

    `reasons` say why JAX cannot differentiate its endpoints.
    """
    ends = {"base": path.base, "target": path.target}
    blind = [name for name, end in ends.items() if not has_gradient(end)]
    if not blind:
        return HMC(num_leapfrog=5), ()
    if reasons:
        note = Note.NOT_DIFFERENTIABLE(ends=" and ".join(reasons), reason=next(iter(reasons.values())))
    else:
        note = Note.NO_GRADIENT(ends=" and ".join(blind))
    return RandomWalk(_BLIND_STEPS), (note,)


def _check_gradients(kernel: AbstractKernel[Any], reasons: dict[str, str]) -> None:
    """Raise where a kernel needs gradients that JAX cannot compute."""
    if kernel.with_slopes and reasons:
        name, reason = next(iter(reasons.items()))
        raise ValueError(
            f"`{type(kernel).__name__}` needs gradients, and JAX cannot differentiate the {name} ({reason}): leave "
            f"`kernel` out, or give `kernel=qpaths.RandomWalk({_BLIND_STEPS})`."
        )


def _run(
    state: CallState, limits: Limits, started: float, stream: Any, file: File, show: Show
) -> tuple[CallState, Cost, Remark]:
    """Run batches of islands until a limit is met or Ctrl-C; return also what was spent, and which limit it was."""
    recipe, islands, num_batches = state
    pilots = recipe.num_evaluations
    # A call that goes on makes islands of the size that is there.
    num_particles = limits.num_particles(recipe) if islands is None else islands.log_weights.shape[1]
    island = cost_of_islands(recipe, num_particles, 1)
    num, each = NUM_ISLANDS, 0.0
    while True:
        spent = pilots + (0 if islands is None else islands.log_evidence.size) * island
        elapsed = time.monotonic() - started
        if islands is not None:
            num = limits.num_islands(spent, island, elapsed, each)
            stopped = limits.stop(islands, spent, island, pilots, elapsed, num)
            if stopped is not None:
                return CallState(recipe, islands, num_batches), spent, stopped
        try:
            begun = time.monotonic()
            new = run_islands(recipe, num_particles, stream=stream.fold(num_batches), num=num)
            islands, num_batches = (new if islands is None else islands + new), num_batches + 1
            file.write(CallState(recipe, islands, num_batches))
            value, error = islands.pooled
            each = (time.monotonic() - begun) / num
            rate = _rate(num * island, num * each)
            show(f"{islands.log_evidence.size} islands: log evidence {value:.4f} +- {error:.4f}, {rate}", None)
        except (KeyboardInterrupt, LostWorkersError) as error:
            if islands is None:
                raise
            if isinstance(error, LostWorkersError):
                warnings.warn(f"evidence: {error} This is what the finished islands say.", stacklevel=3)
            return CallState(recipe, islands, num_batches), spent, limits.interrupted(spent, pilots)


def _rate(cost: Cost, seconds: float) -> str:
    """How fast the target was evaluated, in a few words."""
    num = cost.target + cost.target_gradient
    return f"{num:,} evaluations, {num / max(seconds, 1e-9):,.0f}/s"


def _nothing_found(layout: Layout, error: Exception) -> Result:
    """The honest answer where no draw from the base ever reached the target."""
    finding = Finding.NOTHING_REACHED(error=first_sentence(error))
    warnings.warn(f"evidence: {finding}.", stacklevel=3)
    nothing = np.zeros(0)
    return Result(
        log_evidence=np.asarray(-np.inf),
        log_evidence_se=np.asarray(np.inf),
        samples=layout.points(np.zeros((1, layout.dimension))),
        log_weights=np.full(1, -np.inf),
        betas=np.array([0.0, 1.0]),
        stats={
            "beta": nothing,
            "ess": nothing,
            "acceptance": nothing,
            "step_size": nothing,
            "log_evidence": nothing,
        },
        status=np.asarray(int(Status.COLLAPSED)),
        num_evaluations=Cost(),
        algorithm="Evidence",
        verdict=Verdict(Stop.NOTHING_FOUND(), (), (finding,)),
    )
