"""Numerics that every layer shares.

Nothing here knows about paths or samplers. All functions work in the precision of their arguments, and return no NaN
for arguments in their domain, `-inf` included. They take NumPy and JAX arrays and answer with the same. All but the
mean of matrices are elementwise, or reduce over one axis.
"""

from .basic import log1p as log1p
from .basic import log_ess as log_ess
from .basic import log_gamma_ratio as log_gamma_ratio
from .basic import log_mean_exp as log_mean_exp
from .basic import promote as promote
from .basic import promote_jax as promote_jax
from .matrices import geometric_mean as geometric_mean
from .power_mean import log_power_mean_pair as log_power_mean_pair
from .power_mean import power_mean_pair_derivative as power_mean_pair_derivative
from .power_mean import power_mean_pair_derivatives as power_mean_pair_derivatives
from .power_mean import power_mean_pair_shares as power_mean_pair_shares
