"""qpaths: annealing paths as first-class objects, and every algorithm that anneals along them."""

from .deformed import exp_q as exp_q
from .deformed import log_power_mean as log_power_mean
from .deformed import log_q as log_q
from .densities import Density as Density
from .families import Bernoulli as Bernoulli
from .families import Categorical as Categorical
from .families import Gamma as Gamma
from .families import GeneralizedPareto as GeneralizedPareto
from .families import MultivariateNormal as MultivariateNormal
from .families import MultivariateStudentT as MultivariateStudentT
from .families import Normal as Normal
from .families import Poisson as Poisson
from .families import QGaussian as QGaussian
from .families import StudentT as StudentT
from .paths import AbstractParametricPath as AbstractParametricPath
from .paths import AbstractPath as AbstractPath
from .paths import AbstractPointwisePath as AbstractPointwisePath
from .paths import AlphaProjectionPath as AlphaProjectionPath
from .paths import ArithmeticPath as ArithmeticPath
from .paths import EscortMomentPath as EscortMomentPath
from .paths import GelmanMengPath as GelmanMengPath
from .paths import GeneralizedMeanPath as GeneralizedMeanPath
from .paths import GeometricPath as GeometricPath
from .paths import MomentPath as MomentPath
from .paths import QPath as QPath
from .paths import Reversed as Reversed

__version__ = "0.1.0"
