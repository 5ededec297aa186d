"""Annealing paths: `base.py` says what a path is, each other file is one kind."""

from .base import AbstractPath as AbstractPath
from .base import AbstractPointwisePath as AbstractPointwisePath
from .base import Reversed as Reversed
from .generalized_mean import GeneralizedMeanPath as GeneralizedMeanPath
from .geometric import GeometricPath as GeometricPath
from .power_mean import ArithmeticPath as ArithmeticPath
from .power_mean import QPath as QPath
