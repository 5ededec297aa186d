"""Parametric families of densities: exponential and q-exponential, their duals, escorts and divergences."""

from .base import AbstractExponentialFamily as AbstractExponentialFamily
from .base import AbstractFamily as AbstractFamily
from .base import ScaledMember as ScaledMember
from .discrete import Bernoulli as Bernoulli
from .discrete import Categorical as Categorical
from .discrete import Poisson as Poisson
from .gamma import Gamma as Gamma
from .gaussian import MultivariateNormal as MultivariateNormal
from .gaussian import Normal as Normal
from .pareto import GeneralizedPareto as GeneralizedPareto
from .q_family import AbstractQExponentialFamily as AbstractQExponentialFamily
from .q_gaussian import QGaussian as QGaussian
from .student import MultivariateStudentT as MultivariateStudentT
from .student import StudentT as StudentT
