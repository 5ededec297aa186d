"""Settings: changes from the command line, and names that have changed."""

import pytest

from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.experiment import product
from qpaths_paper.harness.settings import under_present_names, with_changes

DEFAULTS = {"num_particles": 10, "share": 0.5, "moves": [1, 3], "name": "pima"}


def test_changes_take_the_type_of_the_default():
    changed = with_changes(DEFAULTS, ["num_particles=20", "share=1", "moves=5", "name=x=y"])
    assert changed == {"num_particles": 20, "share": 1.0, "moves": [5], "name": "x=y"}
    assert isinstance(changed["share"], float)
    assert with_changes(DEFAULTS, []) == DEFAULTS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("num_partikels=3", "no setting 'num_partikels', did you mean 'num_particles'"),
        ("zzz=3", "no setting 'zzz'. The settings are: num_particles, share, moves, name"),
        ("num_particles=3.5", "'num_particles' must be a whole number, got '3.5'"),
        ("share=nan", "'share' must be a number, got 'nan'"),
        ("share=inf", "'share' must be a number, got 'inf'"),
        ("moves=1,,3", "'moves' must be a whole number, got ''"),
        ("name=", "'name' must be a word, got ''"),
        ("share", "takes key=value, got 'share'"),
    ],
)
def test_wrong_changes_are_errors(change, words):
    with pytest.raises(UserError, match=words):
        with_changes(DEFAULTS, [change])


def test_an_old_name_is_an_error_that_gives_the_present_one():
    with pytest.raises(UserError, match="'orders' is now called 'q': give `--set q="):
        with_changes({"q": [1.0]}, ["orders=0.9"])
    with pytest.raises(UserError, match="no setting 'orders'"):
        with_changes(DEFAULTS, ["orders=0.9"])


def test_stored_settings_come_back_under_present_names():
    assert under_present_names({"orders": [1.0], "moves": 3}, {"q": [], "moves": 1}) == {"q": [1.0], "moves": 3}
    # A setting that is really called so keeps its name.
    assert under_present_names({"orders": [1.0]}, {"orders": []}) == {"orders": [1.0]}
    assert under_present_names({"orders": [1.0]}, {}) == {"orders": [1.0]}


def test_runs_are_the_product_of_the_axes_with_every_seed():
    runs = product(
        moves="moves", q=lambda settings, run: [1.0] if run["moves"] == 1 else settings["q"], without=["num"]
    )
    found = runs({"moves": [1, 3], "q": [0.5, 1.0], "num": 7, "size": 2}, 2)
    assert [(run.settings["moves"], run.settings["q"], run.seed) for run in found] == [
        *((1, 1.0, 0), (1, 1.0, 1)),
        *((3, 0.5, 0), (3, 0.5, 1), (3, 1.0, 0), (3, 1.0, 1)),
    ]
    assert all(set(run.settings) == {"moves", "q", "size"} for run in found)
