"""Share out evaluations: one table for all pilots."""

PILOTS = 0.25
"""Share of the budget for all pilots together."""
AGAIN = 0.35
"""Share of the budget for a second search with more particles where the first one leaves a long path."""
CHECKS = 0.13
"""Share of the budget, kept for the checks of the final draws."""
ASCENTS = 0.25
"""Share of what pilots may cost for ascents."""
CONFIRMING = 0.15
"""Share of what pilots may cost for the short run from the base that looks for modes which ascents have missed."""
CONFIRMING_SEVERAL = 0.3
"""The same where ascents found several modes."""
CHAINS = 0.3
"""Share of what pilots may cost for chains at the target."""
DRIVERS = 0.3
"""Share of what pilots may cost for optima at given values of drivers."""
TRIAL = 0.12
"""Share of what pilots may cost for the small runs that tell in which coordinates a run from the base is better."""
LINGERING = 0.2
"""Share of what a pilot may cost, up to which it moves more than once at a beta."""
FROM_BASE = 0.75
"""Share of what is left for pilots for the run from the base."""
SCANS = 0.5
"""Share of what is left for pilots for scans along coordinates."""
ROUND = 0.4
"""Share of what is left for pilots for the moves of one round of refinement."""
BLOCKS = 0.1
"""Share of what is left for pilots for Hessians."""
MODES_OF_BASE = 0.25
"""Share of what is left for pilots for ascents that look for modes where the base is kept."""
PROBED = 0.2
"""Share of what is left for pilots for draws that tell whether weights alone are good enough."""
