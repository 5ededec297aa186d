"""Markov kernels that leave the density at one beta invariant and carry the path's cached features."""

from .base import AbstractKernel as AbstractKernel
from .base import Cloud as Cloud
from .base import Info as Info
from .base import accept as accept
from .base import grouped as grouped
from .blackjax import BlackJAXKernel as BlackJAXKernel
from .frozen import FrozenKernel as FrozenKernel
from .frozen import KernelWrapper as KernelWrapper
from .frozen import shared as shared
from .gradient import HMC as HMC
from .gradient import MALA as MALA
from .gradient import LeapfrogParams as LeapfrogParams
from .metropolis import IndependentMH as IndependentMH
from .metropolis import RandomWalk as RandomWalk
