"""The annealing loop: a population, one step from beta to beta, and the only loop over betas."""

from .beginning import begin as begin
from .freezing import frozen as frozen
from .freezing import pilot_params as pilot_params
from .groups import anneal_groups as anneal_groups
from .loop import Annealing as Annealing
from .loop import Recorded as Recorded
from .loop import anneal as anneal
from .loop import find_next as find_next
from .population import Fault as Fault
from .population import Population as Population
from .population import State as State
from .population import first_fault as first_fault
from .population import invalid_draws as invalid_draws
