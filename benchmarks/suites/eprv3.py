"""The EPRV3 evidence challenge: radial velocities of stars, none to three planets, and wide priors on the period.

    python -m benchmarks.suites.eprv3 [names] [--models FOLDER] [--form smooth|plain] [--seeds N] [--out FILE] [--table]

A name is a data set, a prior and a number of planets: `1a1` is data set 1 with prior a and one planet. The folder must
hold the models (`eprv3.py`), which are no part of this repository. The truths are those of `reference_evidences.toml`.
Each run appends a row, and the rows of the file become a table (see `benchmarks.suites.run`).
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suites.references import truths_of
from benchmarks.suites.run import read, run_all, table

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "suite"
NAMES = ("1a1", "2a1", "3a1")


class Velocities(NamedTuple):
    """Arguments of `qpaths.evidence`, and the truth."""

    arguments: dict[str, Any]
    truth: float
    truth_se: float


def models_in(folder):
    """The module with the models."""
    file = folder / "eprv3.py"
    if not file.exists():
        sys.exit(f"no EPRV3 here: {file} not found. Give the folder that holds it by `--models`.")
    spec = importlib.util.spec_from_file_location("eprv3_models", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problem(module, name, form):
    number, which, planets = int(name[:-2]), name[-2], int(name[-1])
    arguments = {
        "prior": module.prior(planets, form),
        "log_likelihood": module.log_likelihood(form),
        "data": module.load(number, planets, which),
    }
    return Velocities(arguments, *truths_of("eprv3")[f"{number}{which}, {planets} planets"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="data set, prior and planets, such as 2a1")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of eprv3.py")
    parser.add_argument("--form", choices=("smooth", "plain"), default="smooth", help="how the model is written")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, help="evaluations; the library's defaults unless given")
    parser.add_argument("--out", type=Path, default=Path("eprv3.jsonl"))
    parser.add_argument("--table", action="store_true", help="run nothing, show the table of the rows that are there")
    arguments = parser.parse_args()
    module = models_in(arguments.models)

    def made(name):
        return lambda: problem(module, name, arguments.form)

    if not arguments.table:
        problems = {name: made(name) for name in arguments.names}
        run_all(list(arguments.names), problems, arguments.seeds, arguments.budget, arguments.out)
    rows = [row for row in read(arguments.out) if row["target"] in arguments.names]
    if rows:
        table(list(arguments.names), rows)


if __name__ == "__main__":
    main()
