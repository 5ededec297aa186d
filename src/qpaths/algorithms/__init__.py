"""Algorithms that anneal along any path."""

from .ais import AIS as AIS
from .ais import lower_bound as lower_bound
from .base import AbstractAnnealer as AbstractAnnealer
from .bdmc import BDMC as BDMC
from .driver import drive as drive
from .pt import ParallelTempering as ParallelTempering
from .smc import SMC as SMC
from .ti import ThermodynamicIntegration as ThermodynamicIntegration
from .tvo import ThermodynamicObjective as ThermodynamicObjective
from .tvo import elbo as elbo
from .tvo import iwae as iwae
