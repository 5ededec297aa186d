"""The annealing loop: a population, one step from beta to beta, and the only loop over betas."""

from .loop import Annealing as Annealing
from .loop import Recorded as Recorded
from .loop import anneal as anneal
from .loop import anneal_groups as anneal_groups
from .loop import begin as begin
from .loop import find_next as find_next
from .loop import frozen as frozen
from .loop import pilot_params as pilot_params
from .population import Fault as Fault
from .population import Population as Population
from .population import State as State
from .population import first_fault as first_fault
from .population import invalid_draws as invalid_draws
