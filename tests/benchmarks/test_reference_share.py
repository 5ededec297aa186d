"""What `benchmarks/speed/reference_share.py` counts as the time of references."""

import pytest

from benchmarks.speed import reference_share as share

pytestmark = pytest.mark.outside


def test_a_call_within_another_counts_once_and_for_the_outer_one():
    seconds = [0.0]
    clock = share.Clock(lambda: seconds[0])

    def take(duration):
        seconds[0] += duration

    using = clock.timed("using", take)

    def search():
        take(1.0)
        using(2.0)
        raise ArithmeticError

    finding = clock.timed("finding", search)
    take(8.0)
    using(4.0)
    for _ in range(2):  # a call that raises is over, too
        with pytest.raises(ArithmeticError):
            finding()
    assert clock.seconds == {"finding": 6.0, "using": 4.0}


def test_ascents_fits_and_scans_are_watched_and_pilots_are_not():
    names = {name for module in share.MODULES for name, _ in share.finders(module)}
    assert {"find_modes", "with_more_modes", "fit_hierarchy", "fit_to_pilot", "fit_wells", "blocks_of"} <= names
    assert not names & {"run_pilot", "from_base", "less_mass", "neck"}
