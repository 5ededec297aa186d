"""Parametric families of densities: exponential and q-exponential, their duals, escorts and divergences."""

from .base import AbstractExponentialFamily as AbstractExponentialFamily
from .base import AbstractFamily as AbstractFamily
from .base import Parameters as Parameters
from .base import ScaledMember as ScaledMember
from .base import check_same_family as check_same_family
from .base import mix as mix
from .base import power_mean_member as power_mean_member
from .discrete import Bernoulli as Bernoulli
from .discrete import Categorical as Categorical
from .discrete import Poisson as Poisson
from .dual import solve_root as solve_root
from .gamma import Gamma as Gamma
from .gaussian import MultivariateNormal as MultivariateNormal
from .gaussian import Normal as Normal
from .nodes import Nodes as Nodes
from .pareto import GeneralizedPareto as GeneralizedPareto
from .q_family import AbstractQExponentialFamily as AbstractQExponentialFamily
from .q_family import to_subtractive as to_subtractive
from .q_gaussian import QGaussian as QGaussian
from .student import MultivariateStudentT as MultivariateStudentT
from .student import StudentT as StudentT
