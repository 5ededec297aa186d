from .draws import read_draws as read_draws
from .draws import to_arviz as to_arviz
from .for_blackjax import as_blackjax as as_blackjax
from .model import Model as Model
from .numpyro import from_numpyro as from_numpyro
from .prior_transform import from_prior_transform as from_prior_transform
from .priors import from_prior as from_prior
from .pymc import from_pymc as from_pymc
