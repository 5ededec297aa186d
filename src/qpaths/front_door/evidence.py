"""The log evidence of a model in five steps: problem, probe, pilots, islands, checks."""

import contextlib
import dataclasses
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..adapters import Model
from ..after import by_blocks
from ..algorithms import BDMC
from ..core import (
    Cost,
    LogDensity,
    LogLikelihood,
    Point,
    PRNGKey,
    PyTree,
    Sampler,
    Show,
    Simulator,
    Stream,
    display,
    never_silent,
)
from ..densities import Backend, DensityLike, is_numpy
from ..io import Checkpoint, by_name
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..references import distinct
from ..remarks import Finding, Note, Remark, Stop, Verdict
from ..results import CollapsedError, Result, Status
from ..rows import (
    Evaluator,
    Faults,
    Layout,
    LostWorkersError,
    evaluator_of,
    layout_of,
    rejecting,
    spread_over,
    stream_for,
)
from ..schedules import FixedSchedule
from ..search import tune_population
from .batches import CallState, file_of, findings, rate, run_batches
from .checks import CHECKS, Run, Seen, look
from .inputs import pace, probe
from .limits import SMALLEST_BUDGET, Ledger, Limits
from .problem import (
    Problem,
    check_faults,
    check_not_on_simplex,
    first_sentence,
    in_units_of,
    of_cube,
    one_of,
    path_given,
    structure_of,
    with_names,
)

_MINOR = 0.01
"""Nats up to which a missed part of the target, which the standard error counts, is a note and no finding. Of stored
runs with such a part alone 10 of 10 are right within 1.6 standard errors (`benchmarks/results/proportion.md`)."""
_AGAIN_SHARE = 0.3
"""Share of the budget that must be left for another search when the draws miss known modes."""
_CHAINS, _FEWEST_DISTRIBUTIONS = 64, 17


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
    batches: Sequence[PyTree] | None = None,
    prior_transform: Any = None,
    num_parameters: int | None = None,
    names: Sequence[str] | None = None,
    vectorized: bool = False,
    periodic: Sequence[str | int] = (),
    groups: Sequence[Sequence[str]] | None = None,
    simulate: Simulator | None = None,
    path: AbstractPath[Any] | None = None,
    backend: Backend = "jax",
    budget: int | None = None,
    seconds: float | int | None = None,
    standard_error: float | int | None = None,
    kernel: AbstractKernel[Any] | None = None,
    reference: bool = True,
    faults: Literal["reject", "raise"] = "reject",
    executor: Any = None,
    pool: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Result:
    """Compute the log evidence of a model with its standard error, posterior draws, and a verdict in plain words.

    There are six ways to give a model: a `prior` of distributions by name with a `log_likelihood`; a model of
    `qpaths.adapters` as the first argument; a `prior_transform` and a `log_likelihood`, as for nested samplers;
    `log_prior`, `log_likelihood` and `sample_prior`; a `base` and a `target`; or a `path`.

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
        batches: Blocks of data in place of `data`, which are added one after the other. `stats["log_evidence"]` of the
            result then has the log evidence after each, and `stats["log_predictive"]` that of each block given those
            before. The limits hold for the first one.
        prior_transform: Maps a point of the unit cube to the parameters, for a likelihood of these; see
            `qpaths.adapters.from_prior_transform`.
        num_parameters: The dimension of the cube.
        names: The names of its parameters, in place of their number.
        vectorized: Whether the transform and its likelihood take rows of points.
        periodic: Parameters whose two bounds are the same place, as those of a phase: names, or positions in the cube.
        groups: Lists of names of parameters that belong together, such as those of each planet. The search for modes
            redraws one group of a good mode and climbs again. Names and shapes suggest groups where none are given.
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
        faults: Whether a point at which a density is NaN or `+inf`, or raises an error, counts as a point without mass.
            The verdict says how many there are. `"raise"` stops at the first one.
        checkpoint: A file that is written after the pilots and after each batch. The same call continues from it.
        executor: Where points are evaluated: a pool of `concurrent.futures` (processes for NumPy functions), a Dask
            `Client`, or anything with the same `submit`. The numbers do not depend on it. By default, and for points
            that cost microseconds, this process evaluates them. What a worker held that dies is evaluated again.
        pool: The same as `executor`, as nested samplers call it. A number starts that many processes.
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
    data, later = _first_of(data, batches)
    ledger = Ledger(Limits.of(budget, seconds, standard_error))
    ends = {"base": base, "target": target, "log_prior": log_prior, "sample_prior": sample_prior, "path": path}
    given = ends | {"prior": prior, "log_likelihood": log_likelihood, "data": data}
    cube = {"num_parameters": num_parameters, "names": names, "vectorized": vectorized, "periodic": periodic}
    given = of_cube(given, prior_transform, cube)
    executor = one_of(executor=executor, pool=pool)
    problem = Problem.of(given, kernel, reference, simulate, backend)
    check_faults(faults)
    rejected = Faults() if faults == "reject" else None
    stream = stream_for(key, problem.path, pilots=True)
    tune_stream, run_stream, check_stream, certificate_stream = stream.split(4)
    evaluator = evaluator_of(problem.path, stream, with_slopes=problem.kernel.with_slopes)
    problem = problem._replace(structure=structure_of(groups, evaluator.layout))
    file = file_of(checkpoint, problem.path, problem.kernel, evaluator.layout, key)
    check_not_on_simplex(evaluator, check_stream)
    with spread_over(executor), in_units_of(problem.model), rejecting(rejected):
        seen = probe(evaluator, check_stream, kernel is None)
        said = () if problem.model is None else problem.model.notes
        seen = seen._replace(findings=[*seen.findings, *(one for one in said if isinstance(one.kind, Finding))])
        problem = problem._replace(notes=(*problem.notes, *(one for one in said if isinstance(one.kind, Note))))
        file.features = by_name(seen.features)
        blind = [note for note in problem.notes if note.kind is Note.NOT_DIFFERENTIABLE]
        _warn([*seen.findings, *seen.notes, *blind])
        # A share of a base that is not normalized would make the reference neither one nor the other.
        problem = problem._replace(reference=problem.reference and seen.is_normalized)
        simulated = None
        if simulate is not None:
            simulated = simulated_from(problem.path, problem.likelihood, simulate, certificate_stream)
        if seconds is not None:
            ledger.pace(*pace(evaluator, problem.kernel.with_slopes, check_stream))
            _warn_if_impossible(ledger.limits)
        with display(progress) as plain, contextlib.ExitStack() as stack:
            show = stack.enter_context(never_silent(plain, ledger.words)) if progress else plain
            try:
                state = file.read() or _pilots(problem, ledger, tune_stream, file, show)
            except CollapsedError as error:
                return _nothing_found(evaluator.layout, error)
            certificate: tuple[Remark, ...] = ()
            if simulated is not None:
                show("bounds on simulated data", None)
                settings = ledger.limits.finite_budget, problem.kernel, problem.reference, certificate_stream
                bounds, ledger.outside = certify(simulated, *settings)
                certificate = (bounds,)
            state, stopped, checked = _answer(problem, evaluator, state, ledger, run_stream, check_stream, file, show)
    stopped = stopped.with_values(spent=ledger.total.total)
    if budget is not None and standard_error is not None and stopped.kind is Stop.BUDGET:
        words = f"the budget was too small for the standard error that you wanted: {stopped}"
        warnings.warn(f"evidence: {words}. Give a larger `budget` or a larger `standard_error`.", stacklevel=2)
    notes = (*problem.notes, *certificate, *state.recipe.notes, *seen.notes)
    of_faults = problem.faults(rejected, evaluator.layout, seen.faults, checked.rejected)
    result, found = _judged(state, stopped, checked, Verdict(stopped, notes, tuple(seen.findings)), of_faults, ledger)
    _warn(found)
    named = with_names(result, problem.model, problem.data)
    kept = problem.kept(state.recipe)
    named = dataclasses.replace(named, origin=kept)
    return by_blocks(kept.value, named, later, key) if later else named


def _first_of(data: Any, batches: Sequence[Any] | None) -> tuple[Any, list[Any]]:
    """Return the data of the run, and the blocks that come after it."""
    if batches is None:
        return data, []
    if data is not None or isinstance(batches, str) or len(batches) == 0:
        raise ValueError("`batches` must be a list of blocks of data, at least one, and in place of `data`.")
    return batches[0], list(batches[1:])


def _judged(
    state: CallState, stopped: Remark, checked: Seen, verdict: Verdict, of_faults: list[Remark], ledger: Ledger
) -> tuple[Result, list[Remark]]:
    """Return the result of the islands, and the findings that the verdict does not have yet."""
    islands = state.islands
    assert islands is not None
    parts = islands.parts._replace(**checked.errors)
    minor = [
        one for one in checked.findings if one.kind in (Finding.MISSED_MODE, Finding.DRIFT) and one.error <= _MINOR
    ]
    found = [*findings(islands, state.recipe, parts), *(one for one in checked.findings if one not in minor)]
    found += [remark for remark in of_faults if isinstance(remark.kind, Finding)]
    notes = [remark for remark in of_faults if isinstance(remark.kind, Note)]
    notes += [Note.MINOR(what=str(one)) for one in minor]
    verdict = Verdict(stopped, (*verdict.chosen, *notes), (*verdict.findings, *found))
    status = Status.UNFINISHED if stopped.kind is Stop.INTERRUPTED else Status.OK
    return islands.result(state.recipe.betas, parts, ledger.total, status, verdict), found


def _pilots(problem: Problem, ledger: Ledger, stream: Stream, file: Checkpoint, show: Show) -> CallState:
    """Return the recipe that pilots find."""
    show("pilots", None)
    begun, budget = time.monotonic(), ledger.limits.finite_budget
    recipe = tune_population(
        problem.path,
        key=stream,
        budget=budget,
        kernel=problem.kernel,
        reference=problem.reference,
        structure=problem.structure,
    )
    state = CallState(recipe, None, 0)
    file.write(state)
    taken = time.monotonic() - begun
    ledger.spend(recipe.num_evaluations)
    ledger.pace(recipe.num_evaluations.total, taken)
    show(f"pilots: {rate(recipe.num_evaluations, taken)}", None)
    return state


def _answer(
    problem: Problem,
    evaluator: Evaluator,
    state: CallState,
    ledger: Ledger,
    run_stream: Stream,
    check_stream: Stream,
    file: Checkpoint,
    show: Show,
) -> tuple[CallState, Remark, Seen]:
    """Return islands and what checks have seen in them; where these find new modes, pilots and islands start again."""
    while True:
        state, stopped = run_batches(state, ledger, run_stream, file, show)
        recipe, islands, num_batches = state
        assert islands is not None
        try:
            checked = look(Run(evaluator, problem.kernel, recipe, islands, ledger, check_stream), CHECKS)
            modes, budget = distinct(recipe.modes, checked.modes), ledger.limits.finite_budget
            is_new = len(modes) > len(recipe.modes)
            if not (problem.reference and is_new and ledger.left > _AGAIN_SHARE * budget):
                return state, stopped, checked
            show("pilots again, with the modes that the draws miss", None)
            settings: dict[str, Any] = {"budget": int(min(ledger.left, budget)), "kernel": problem.kernel}
            recipe = tune_population(
                problem.path, key=check_stream.fold(6), known=modes, structure=problem.structure, **settings
            )
        except (KeyboardInterrupt, LostWorkersError):
            return state, ledger.limits.interrupted(ledger.spent, recipe.num_evaluations), Seen()
        ledger.spend(recipe.num_evaluations)
        state = CallState(dataclasses.replace(recipe, num_evaluations=ledger.spent), None, num_batches)
        file.write(state)


def _warn_if_impossible(limits: Limits) -> None:
    """Say at once where the seconds are not enough for the shortest answer, and how many it takes."""
    if limits.affordable < SMALLEST_BUDGET:
        each = limits.seconds / max(limits.affordable, 1.0)
        warnings.warn(
            f"evidence: {limits.seconds:g} seconds are enough for about {limits.affordable:,.0f} evaluations, and the "
            f"shortest answer takes {SMALLEST_BUDGET:,}, about {each * SMALLEST_BUDGET:,.0f} seconds: give more "
            f"seconds, or a `pool` of processes.",
            stacklevel=3,
        )


def _warn(found: list[Remark]) -> None:
    for finding in found:
        warnings.warn(f"evidence: {finding}.", stacklevel=3)


def _nothing_found(layout: Layout, error: Exception) -> Result:
    """Return the honest answer if no draw from the base ever reached the target."""
    finding = Finding.NOTHING_REACHED(error=first_sentence(error))
    warnings.warn(f"evidence: {finding}.", stacklevel=3)
    nothing = np.zeros(0)
    return Result(
        log_evidence=np.asarray(-np.inf),
        log_evidence_se=np.asarray(np.inf),
        samples=layout.points(np.zeros((1, layout.dimension))),
        log_weights=np.full(1, -np.inf),
        betas=np.array([0.0, 1.0]),
        stats=dict.fromkeys(("beta", "ess", "acceptance", "step_size", "log_evidence"), nothing),  # type: ignore[arg-type]
        status=np.asarray(int(Status.COLLAPSED)),
        num_evaluations=Cost(),
        algorithm="Evidence",
        verdict=Verdict(Stop.NOTHING_FOUND(), (), (finding,)),
    )


class Simulated(NamedTuple):
    """The path for data simulated from the prior, and the point they came from: an exact draw of the posterior."""

    path: AbstractPath[Any]
    truth: Point


def simulated_from(path: AbstractPath[Any], likelihood: Any, simulate: Simulator, stream: Any) -> Simulated:
    """Simulate data; an error where what `simulate` returns does not fit the likelihood."""
    point, data = stream.split(2)
    prior: Any = path.base
    if is_numpy(prior):
        truth = prior.sample(point.generator)
        simulated = path_given(prior, likelihood, simulate(data.generator, truth))
    else:
        truth = path.sample_base(point.as_key())
        simulated = path_given(prior, likelihood, simulate(data.as_key(), truth))
    layout_of(simulated)  # raises before anything that takes long
    return Simulated(simulated, truth)


def certify(
    simulated: Simulated, budget: int, kernel: AbstractKernel[Any], reference: bool, stream: Stream
) -> tuple[Remark, Cost]:
    """Bound the error of the same procedure by bidirectional Monte Carlo; return also what that costs."""
    tune_stream, run_stream = stream.fold(2).split(2)
    recipe = tune_population(simulated.path, key=tune_stream, budget=budget, kernel=kernel, reference=reference)
    num = max(_FEWEST_DISTRIBUTIONS, recipe.num_steps + 1)
    betas = np.interp(np.linspace(0, recipe.num_steps, num), np.arange(recipe.num_steps + 1), recipe.betas)
    # The chains back start at states of walks from one point, and should forget what these still share.
    bounds = BDMC(_CHAINS, FixedSchedule(betas), recipe.kernel).run(recipe.path, simulated.truth, key=run_stream)
    numbers = {name: float(getattr(bounds, name)) for name in ("lower", "lower_se", "upper", "upper_se", "gap")}
    return Note.CERTIFICATE(**numbers), recipe.num_evaluations + bounds.num_evaluations
