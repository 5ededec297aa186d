"""Markov kernels that leave the density at one beta invariant and carry the path's cached features."""

from .base import AbstractKernel as AbstractKernel
from .blackjax import BlackJAXKernel as BlackJAXKernel
from .frozen import FrozenKernel as FrozenKernel
from .gradient import HMC as HMC
from .gradient import MALA as MALA
from .metropolis import IndependentMH as IndependentMH
from .metropolis import RandomWalk as RandomWalk
from .wrapper import KernelWrapper as KernelWrapper
