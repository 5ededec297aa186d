"""A NumPyro model as prior, likelihood and named variables."""

import dataclasses
import warnings
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import PRNGKey, PyTree, QpathsTypeError
from .distributions import Transform, Values, discrete_elements, free_of, from_numpyro_distribution, is_free
from .enumeration import DiscreteSites, Factors, Site, Trace
from .model import Model, Named


def from_numpyro(model: object, *args: PyTree, **kwargs: PyTree) -> Model:
    """A NumPyro model, called with the arguments, for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    The prior is what the latent sites say, the likelihood what the observed sites and factors say. The result's samples
    are the latent sites by name, in their own units, and the deterministic sites. `model.simulate` draws data from the
    observed sites, for the certificate: `evidence(own, simulate=own.simulate, key=key)`.

        result = qpaths.evidence(from_numpyro(eight_schools, sigma, y=y), key=jax.random.key(0))

    Discrete latent sites with finitely many values are summed out, row by row where they are in a plate. The result
    has no draws of them, nor of deterministic sites that depend on them.

    Sites that cannot be handled are errors that name them: an improper prior, a discrete site with infinitely many
    values, a plate that subsamples.

    Args:
        model: A NumPyro model, a function.
        *args: Its arguments, as for a run of NumPyro; they include the observed data.
        **kwargs: Its keyword arguments.

    Returns:
        A `Model`, for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    See [NumPyro](your_model.md#numpyro) and Phan, Pradhan and Jankowiak (2019).

    Examples:
        >>> import jax.numpy as jnp
        >>> import numpyro
        >>> import numpyro.distributions as dist
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
        ...     numpyro.sample("y", dist.Normal(mu, 1), obs=y)
        >>> own = from_numpyro(model, jnp.array([0.3]))
        >>> round(float(own.log_likelihood({"mu": jnp.zeros(())}, own.data)), 3)  # at mu = 0
        -0.964
    """
    own = _Sites(_import_numpyro(), model, args, kwargs)
    made = Model.of(own, can_simulate=not own.has_factors and not own.mixed)
    # After the sum over a site that several observations share, the likelihood is no product over observations.
    return dataclasses.replace(made, pointwise=None) if own.discrete else made


def _import_numpyro() -> ModuleType:
    """NumPyro, or an error that says how to install it."""
    try:
        import numpyro
        import numpyro.handlers
    except ImportError as error:
        raise ImportError("`from_numpyro` needs NumPyro: pip install 'qpaths[numpyro]'.") from error
    return numpyro


class _Sites:
    """The sites of a model, and functions of unconstrained points made from them."""

    def __init__(self, numpyro: ModuleType, model: object, args: tuple[PyTree, ...], kwargs: Named):
        if not callable(model):
            raise QpathsTypeError(f"`model` must be a NumPyro model, which is a function, got {model!r}.")
        self.handlers, self.model, self.args, self.kwargs = numpyro.handlers, model, args, kwargs
        trace: Trace = {}
        key = jax.random.key(0)
        try:
            shapes = jax.eval_shape(lambda: self._look(trace, key))
        except jax.errors.TracerBoolConversionError as error:
            raise TypeError(
                "the model uses the value of a site in a Python `if` or `while`, which JAX cannot trace: choose with "
                "`jnp.where`, or with `numpyro.contrib.control_flow.cond`."
            ) from error
        self.discrete = DiscreteSites(trace, [name for name in trace if name in shapes])
        self.latent = [name for name in trace if name in shapes and name not in self.discrete]  # in the model's order
        self.shapes = {name: tuple(shapes[name].shape) for name in self.latent}
        observed = {name: site for name, site in trace.items() if _is_data(site)}
        self.has_factors = any(_is_factor(site) for site in trace.values())
        self.data = {name: _checked_data(name, site) for name, site in observed.items()}
        if not observed and not self.has_factors:
            raise ValueError(
                f"the model has no observed site, only {', '.join(self.latent)}: give `obs=...` to the site of the "
                f"data, and pass the data to `from_numpyro(model, ...)`."
            )
        if not self.latent:
            raise ValueError(
                f"the model has discrete latent sites only, {', '.join(shapes)}, so its evidence is a sum: there is "
                f"nothing to integrate."
            )
        self.free = self._drawn_free(trace)
        self.mixed: list[str] = []
        self.hidden: set[str] = set()
        if self.discrete:
            self._look_at_discrete()

    def _look_at_discrete(self) -> None:
        """Find what depends on the discrete sites: continuous priors (`mixed`), deterministic sites (`hidden`)."""

        def outputs(point: Named, chosen: Named) -> dict[str, Named]:
            trace = self._at(point, chosen=chosen)
            return {
                "logs": _log_probs(trace),
                "values": {name: trace[name]["value"] for name in self.latent},
                "computed": {name: site["value"] for name, site in trace.items() if _is_computed(site)},
            }

        key = jax.random.key(0)
        self.hidden = self.discrete.look(outputs, jax.eval_shape(self.sample, key))
        self.mixed = [name for name in self.latent if self.discrete.depends[name]]
        self.discrete.check_rows(self._factors(jax.jit(self.sample)(key)), np.random.default_rng(0))

    def _factors(self, point: Named, data: Named | None = None) -> Factors:
        """The log densities of all sites at a point, as a function of the values of the discrete ones."""
        return lambda chosen: _log_probs(self._at(point, data, chosen=chosen))

    def _look(self, trace: Trace, key: PRNGKey) -> Named:
        """Run the model once with traced draws: fills `trace`, and raises where a site cannot be handled."""

        def check(site: Site) -> None:
            """Raise, before anything is drawn from it, where the prior of a site cannot be handled."""
            if _is_latent(site) and discrete_elements(site["name"], site["fn"]) is None:
                from_numpyro_distribution(site["name"], site["fn"])

        checked = self.handlers.substitute(self.model, substitute_fn=check)
        trace |= self._run(self.handlers.seed(checked, key))
        for name, site in trace.items():
            if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
                raise ValueError(
                    f"the plate `{name}` takes {site['args'][1]} of {site['args'][0]} rows at a time, and the evidence "
                    f"needs all of them: give no `subsample_size`."
                )
        latent = {name: site for name, site in trace.items() if _is_latent(site)}
        if not latent:
            raise ValueError("the model has no latent site, so its evidence is its likelihood: nothing to integrate.")
        for name, site in latent.items():
            if site["scale"] is not None:
                raise ValueError(
                    f"the prior of `{name}` is scaled (`handlers.scale` or a plate), so it does not integrate to 1: "
                    f"scale the observed sites only."
                )
        return {name: site["value"] for name, site in latent.items()}

    def _run(self, model: object) -> Trace:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return self.handlers.trace(model).get_trace(*self.args, **self.kwargs)

    def _at(
        self,
        point: Named,
        data: Named | None = None,
        key: PRNGKey | None = None,
        chosen: Named | None = None,
    ) -> Trace:
        """The sites of the model at an unconstrained point: with the data, with other data, or with fresh ones.

        `chosen` has the values of the discrete sites. Without it they are fresh with a key, and the first of their
        values without one.
        """
        model = self.model
        if chosen is None:
            chosen = {} if key is not None else self.discrete.chosen({})
        if key is not None:
            model = self.handlers.uncondition(model)
        elif data is not None:
            model = self.handlers.condition(model, data=data)

        def place(site: Site) -> Values | None:
            name = site["name"]
            return _transform(site)(point[name]) if name in point else chosen.get(name)

        placed = self.handlers.substitute(model, substitute_fn=place)
        return self._run(self.handlers.seed(placed, jax.random.key(0) if key is None else key))

    def sample(self, key: PRNGKey) -> Named:
        point: Named = {}
        # Keys that are split and keys that a number is folded into may be the same.
        own, of_model = jax.random.split(key)

        def draw(site: Site) -> Values | None:
            name = site["name"]
            if name not in self.free:
                return None
            free = free_of(site["fn"])
            assert free is not None
            point[name] = free.sample(jax.random.fold_in(own, self.latent.index(name)))
            return _transform(site)(point[name])

        trace = self._run(self.handlers.seed(self.handlers.substitute(self.model, substitute_fn=draw), of_model))
        others = (name for name in self.latent if name not in point)
        return point | {name: _transform(trace[name]).inv(trace[name]["value"]) for name in others}

    def _drawn_free(self, trace: Trace) -> tuple[str, ...]:
        """Return the sites that are drawn without bounds; none if one of them is in a loop, and cannot be reached."""
        self.free = tuple(name for name in self.latent if is_free(trace[name]["fn"]))
        try:
            with jax.checking_leaks():
                jax.eval_shape(self.sample, jax.random.key(0))
        except Exception as error:
            if "Leaked" not in str(error):
                raise
            return ()
        return self.free

    def log_prior(self, point: Named) -> Values:
        trace = self._at(point)
        total: Values = 0.0
        for name in self.latent:
            site = trace[name]
            free = None if name in self.mixed else free_of(site["fn"])
            if free is not None:
                total = total + jnp.sum(free.log_prob(point[name]))
                continue
            total = total + jnp.sum(_transform(site).log_abs_det_jacobian(point[name], site["value"]))
            if name not in self.mixed:
                total = total + jnp.sum(_log_prob(site))
        return total + self._log_sum(point, self.mixed)

    def log_likelihood(self, point: Named, data: Named | None = None) -> Values:
        trace = self._at(point, data)
        observed = [name for name, site in trace.items() if _is_data(site) or _is_factor(site)]
        if not self.discrete:
            return sum(jnp.sum(_log_prob(trace[name])) for name in observed)
        return self._log_sum(point, [*self.mixed, *observed], data) - self._log_sum(point, self.mixed)

    def _log_sum(self, point: Named, names: list[str], data: Named | None = None) -> Values:
        """The log of the sum, over the discrete sites, of their density times that of some sites."""
        if not names:
            return 0.0  # the densities of the discrete sites sum to 1
        return self.discrete.log_sum(self._factors(point, data), [*self.discrete.values, *names])

    def pointwise(self, point: Named) -> Named:
        trace = self._at(point)
        return {name: _log_prob(trace[name]) for name in self.data}

    def constrain(self, point: Named) -> Named:
        trace = self._at(point)
        return {
            name: site["value"]
            for name, site in trace.items()
            if name in self.latent or (_is_computed(site) and name not in self.hidden)
        }

    def unconstrain(self, named: Named) -> Named:
        given = {name: named[name] for name in self.latent}
        placed = self.handlers.substitute(self.model, data=given | self.discrete.chosen({}))
        trace = self._run(self.handlers.seed(placed, jax.random.key(0)))
        return {name: _transform(trace[name]).inv(given[name]) for name in self.latent}

    def simulate(self, key: PRNGKey, point: Named) -> Named:
        trace = self._at(point, key=key)
        return {name: trace[name]["value"] for name in self.data}


def _is_latent(site: Site) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_factor(site: Site) -> bool:
    """A factor is an observed site of a distribution without a value."""
    return site["type"] == "sample" and site["is_observed"] and type(site["fn"]).__name__ == "Unit"


def _is_computed(site: Site) -> bool:
    return site["type"] == "deterministic" and isinstance(site["value"], jax.Array)


def _is_data(site: Site) -> bool:
    return site["type"] == "sample" and site["is_observed"] and not _is_factor(site)


def _transform(site: Site) -> Transform:
    """From all real numbers to the support, which may depend on other sites."""
    from numpyro.distributions import biject_to

    return biject_to(site["fn"].support)


def _log_prob(site: Site) -> Values:
    """Log density of a site's value, with the axes of its batch."""
    intermediates = site["intermediates"]
    found = site["fn"].log_prob(site["value"], intermediates) if intermediates else site["fn"].log_prob(site["value"])
    return found if site["scale"] is None else site["scale"] * found


def _log_probs(trace: Trace) -> Named:
    return {name: _log_prob(site) for name, site in trace.items() if site["type"] == "sample"}


def _checked_data(name: str, site: Site) -> Any:
    """Return what was observed at a site."""
    value = np.asarray(site["value"])
    is_masked = type(site["fn"]).__name__ == "MaskedDistribution"
    if not is_masked and np.issubdtype(value.dtype, np.floating) and np.isnan(value).any():
        raise ValueError(
            f"the observed site `{name}` has {int(np.isnan(value).sum())} NaN among {value.size} values: leave the "
            f"missing ones out, or mask them (`dist.Normal(...).mask(...)`)."
        )
    return jnp.asarray(value)
