"""qpaths: annealing paths as first-class objects, and every algorithm that anneals along them.

The names are those of `__init__.pyi`. Each is imported when it is first used, so that the command line starts without
JAX.
"""

import lazy_loader

from ._renamed import with_old_names

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"

_MOVED = {
    "AbstractKernel": "kernels.AbstractKernel",
    "AbstractParametricPath": "paths.AbstractParametricPath",
    "AbstractPath": "paths.AbstractPath",
    "AbstractPointwisePath": "paths.AbstractPointwisePath",
    "AlphaProjectionPath": "paths.AlphaProjectionPath",
    "Bernoulli": "families.Bernoulli",
    "BlackJAXKernel": "kernels.BlackJAXKernel",
    "BoundsResult": "results.BoundsResult",
    "Categorical": "families.Categorical",
    "FrozenKernel": "kernels.FrozenKernel",
    "Gamma": "families.Gamma",
    "GelmanMengPath": "paths.GelmanMengPath",
    "GeneralizedPareto": "families.GeneralizedPareto",
    "LogUniformSchedule": "schedules.LogUniformSchedule",
    "Poisson": "families.Poisson",
    "QGaussian": "families.QGaussian",
    "Tuned": "Recipe",
    "bridge": "estimators.bridge",
    "derivative_moments": "estimators.derivative_moments",
    "elbo": "algorithms.elbo",
    "equalise": "equalize",
    "iwae": "algorithms.iwae",
    "lower_bound": "algorithms.lower_bound",
    "neighbor_log_ratios": "estimators.neighbor_log_ratios",
    "neighbour_log_ratios": "estimators.neighbor_log_ratios",
    "stepping_stone": "estimators.stepping_stone",
    "thermodynamic_integration": "estimators.thermodynamic_integration",
}
"""Names of version 0.0 that live elsewhere now; they go with the next version."""

__getattr__ = with_old_names(__name__, _MOVED, _find)
