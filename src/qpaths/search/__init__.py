"""Choosing q, schedule, kernel and reference from pilot runs; what comes out is frozen before the run that counts."""

from .choices import BASE_SHARE as BASE_SHARE
from .choose import choose_q as choose_q
from .equalize import Equalized as Equalized
from .equalize import equalize as equalize
from .for_chains import tune_chains as tune_chains
from .for_population import tune_population as tune_population
from .heuristics import EssChoice as EssChoice
from .heuristics import ess_heuristic as ess_heuristic
from .heuristics import rho_rule as rho_rule
from .pilot import run_pilot as run_pilot
from .tune import tune as tune
