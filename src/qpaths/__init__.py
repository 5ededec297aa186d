"""qpaths: annealing paths as first-class objects, and every algorithm that anneals along them."""

from .algorithms import AIS as AIS
from .algorithms import BDMC as BDMC
from .algorithms import SMC as SMC
from .algorithms import ParallelTempering as ParallelTempering
from .algorithms import ThermodynamicIntegration as ThermodynamicIntegration
from .algorithms import drive as drive
from .algorithms import lower_bound as lower_bound
from .deformed import exp_q as exp_q
from .deformed import log_power_mean as log_power_mean
from .deformed import log_q as log_q
from .densities import Density as Density
from .estimators import bridge as bridge
from .estimators import derivative_moments as derivative_moments
from .estimators import neighbour_log_ratios as neighbour_log_ratios
from .estimators import stepping_stone as stepping_stone
from .estimators import thermodynamic_integration as thermodynamic_integration
from .families import MultivariateNormal as MultivariateNormal
from .families import Normal as Normal
from .kernels import HMC as HMC
from .kernels import MALA as MALA
from .kernels import AbstractKernel as AbstractKernel
from .kernels import BlackJAXKernel as BlackJAXKernel
from .kernels import IndependentMH as IndependentMH
from .kernels import RandomWalk as RandomWalk
from .paths import AbstractPath as AbstractPath
from .paths import AbstractPointwisePath as AbstractPointwisePath
from .paths import ArithmeticPath as ArithmeticPath
from .paths import GeneralizedMeanPath as GeneralizedMeanPath
from .paths import GeometricPath as GeometricPath
from .paths import QPath as QPath
from .paths import Reversed as Reversed
from .results import BoundsResult as BoundsResult
from .results import Result as Result
from .results import Status as Status
from .results import load_result as load_result
from .schedules import AdaptiveSchedule as AdaptiveSchedule
from .schedules import FixedSchedule as FixedSchedule
from .schedules import LinearSchedule as LinearSchedule
from .schedules import SigmoidSchedule as SigmoidSchedule

__version__ = "0.1.0"
