"""The annealing loop: a population, one step from beta to beta, and the only loop over betas."""

from .groups import anneal_groups as anneal_groups
from .loop import Annealing as Annealing
from .loop import anneal as anneal
from .population import Fault as Fault
from .population import Population as Population
from .population import State as State
from .population import first_fault as first_fault
from .start import begin as begin
