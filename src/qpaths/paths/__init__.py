"""Annealing paths: `base.py` says what a path is, each other file is one kind."""

from .alpha_projection import AlphaProjectionPath as AlphaProjectionPath
from .base import AbstractPath as AbstractPath
from .base import AbstractPointwisePath as AbstractPointwisePath
from .base import EndpointSlopes as EndpointSlopes
from .base import EndpointValues as EndpointValues
from .base import Ordered as Ordered
from .data import DataFeatures as DataFeatures
from .data import DataPath as DataPath
from .descriptions import Description as Description
from .descriptions import Pilot as Pilot
from .descriptions import describe as describe
from .descriptions import learn as learn
from .escort import EscortMomentPath as EscortMomentPath
from .gelman_meng import GelmanMengPath as GelmanMengPath
from .generalized_mean import GeneralizedMeanPath as GeneralizedMeanPath
from .geometric import GeometricPath as GeometricPath
from .moment import MomentPath as MomentPath
from .multi_input import MultiInputPath as MultiInputPath
from .parameter_mean import ParameterMeanPath as ParameterMeanPath
from .parametric import AbstractParametricPath as AbstractParametricPath
from .prior import PriorPath as PriorPath
from .q_path import ArithmeticPath as ArithmeticPath
from .q_path import QPath as QPath
from .reversed import Reversed as Reversed
from .spline import SplinePath as SplinePath
from .varying_q import VaryingQPath as VaryingQPath
