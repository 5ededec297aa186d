"""A NumPyro model as prior, likelihood and named variables."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .distributions import from_numpyro_distribution, refuse_discrete
from .model import Model, Named

Trace = dict[str, dict[str, Any]]


def from_numpyro(model: Any, *args: Any, **kwargs: Any) -> Model:
    """A NumPyro model, called with the arguments, for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    The prior is what the latent sites say, the likelihood what the observed sites and factors say. The result's samples
    are the latent sites by name, in their own units, and the deterministic sites. `model.simulate` draws data from the
    observed sites, for the certificate: `evidence(own, simulate=own.simulate, key=key)`.

        result = qpaths.evidence(from_numpyro(eight_schools, sigma, y=y), key=jax.random.key(0))

    Sites that cannot be handled are errors that name them: an improper prior, a discrete site, a plate that subsamples.

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
    return Model.of(own, can_simulate=not own.has_factors)


def _import_numpyro() -> Any:
    """NumPyro, or an error that says how to install it."""
    try:
        import numpyro
        import numpyro.handlers
    except ImportError as error:
        raise ImportError("`from_numpyro` needs NumPyro: pip install 'qpaths[numpyro]'.") from error
    return numpyro


class _Sites:
    """The sites of a model, and functions of unconstrained points made from them."""

    def __init__(self, numpyro: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        if not callable(model):
            raise TypeError(f"`model` must be a NumPyro model, which is a function, got {model!r}.")
        self.handlers, self.model, self.args, self.kwargs = numpyro.handlers, model, args, kwargs
        trace: Trace = {}
        key = jax.random.key(0)
        shapes = jax.eval_shape(lambda: self._look(trace, key))
        self.latent = [name for name in trace if name in shapes]  # in the order of the model
        self.shapes = {name: tuple(shapes[name].shape) for name in self.latent}
        observed = {name: site for name, site in trace.items() if _is_data(site)}
        self.has_factors = any(_is_factor(site) for site in trace.values())
        self.data = {name: _checked_data(name, site) for name, site in observed.items()}
        if not observed and not self.has_factors:
            raise ValueError(
                f"the model has no observed site, only {', '.join(self.latent)}: give `obs=...` to the site of the "
                f"data, and pass the data to `from_numpyro(model, ...)`."
            )

    def _look(self, trace: Trace, key: Any) -> Named:
        """Run the model once with traced draws: fills `trace`, and raises where a site cannot be handled."""
        checked = self.handlers.substitute(self.model, substitute_fn=_check_latent)
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

    def _run(self, model: Any) -> Trace:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return self.handlers.trace(model).get_trace(*self.args, **self.kwargs)

    def _at(self, point: Named, data: Named | None = None, key: Any = None) -> Trace:
        """The sites of the model at an unconstrained point: with the data, with other data, or with fresh ones."""
        model = self.model
        if key is not None:
            model = self.handlers.uncondition(model)
        elif data is not None:
            model = self.handlers.condition(model, data=data)

        def place(site: dict[str, Any]) -> Any:
            if site["name"] not in point:
                return None
            return _transform(site)(point[site["name"]])

        placed = self.handlers.substitute(model, substitute_fn=place)
        return self._run(self.handlers.seed(placed, jax.random.key(0) if key is None else key))

    def sample(self, key: Any) -> Named:
        trace = self._run(self.handlers.seed(self.model, key))
        return {name: _transform(trace[name]).inv(trace[name]["value"]) for name in self.latent}

    def log_prior(self, point: Named) -> Any:
        trace = self._at(point)
        total: Any = 0.0
        for name in self.latent:
            site, u = trace[name], point[name]
            jacobian = _transform(site).log_abs_det_jacobian(u, site["value"])
            total = total + jnp.sum(_log_prob(site)) + jnp.sum(jacobian)
        return total

    def log_likelihood(self, point: Named, data: Named | None = None) -> Any:
        trace = self._at(point, data)
        return sum(jnp.sum(_log_prob(site)) for site in trace.values() if _is_data(site) or _is_factor(site))

    def pointwise(self, point: Named) -> Named:
        trace = self._at(point)
        return {name: _log_prob(trace[name]) for name in self.data}

    def constrain(self, point: Named) -> Named:
        trace = self._at(point)
        return {
            name: site["value"]
            for name, site in trace.items()
            if name in self.latent or (site["type"] == "deterministic" and isinstance(site["value"], jax.Array))
        }

    def unconstrain(self, named: Named) -> Named:
        given = {name: named[name] for name in self.latent}
        placed = self.handlers.substitute(self.model, data=given)
        trace = self._run(self.handlers.seed(placed, jax.random.key(0)))
        return {name: _transform(trace[name]).inv(given[name]) for name in self.latent}

    def simulate(self, key: Any, point: Named) -> Named:
        trace = self._at(point, key=key)
        return {name: trace[name]["value"] for name in self.data}


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _check_latent(site: dict[str, Any]) -> None:
    """Raise, before anything is drawn from it, where the prior of a site cannot be handled."""
    if _is_latent(site) and from_numpyro_distribution(site["name"], site["fn"]).values is not None:
        raise refuse_discrete(site["name"], type(site["fn"]).__name__)


def _is_factor(site: dict[str, Any]) -> bool:
    """A factor is an observed site of a distribution without a value."""
    return site["type"] == "sample" and site["is_observed"] and type(site["fn"]).__name__ == "Unit"


def _is_data(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and site["is_observed"] and not _is_factor(site)


def _transform(site: dict[str, Any]) -> Any:
    """From all real numbers to the support, which may depend on other sites."""
    from numpyro.distributions import biject_to

    return biject_to(site["fn"].support)


def _log_prob(site: dict[str, Any]) -> Any:
    """Log density of a site's value, with the axes of its batch."""
    intermediates = site["intermediates"]
    found = site["fn"].log_prob(site["value"], intermediates) if intermediates else site["fn"].log_prob(site["value"])
    return found if site["scale"] is None else site["scale"] * found


def _checked_data(name: str, site: dict[str, Any]) -> Any:
    """What was observed at a site."""
    value = np.asarray(site["value"])
    is_masked = type(site["fn"]).__name__ == "MaskedDistribution"
    if not is_masked and np.issubdtype(value.dtype, np.floating) and np.isnan(value).any():
        raise ValueError(
            f"the observed site `{name}` has {int(np.isnan(value).sum())} NaN among {value.size} values: leave the "
            f"missing ones out, or mask them (`dist.Normal(...).mask(...)`)."
        )
    return jnp.asarray(value)
