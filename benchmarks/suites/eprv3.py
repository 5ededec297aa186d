"""The EPRV3 evidence challenge: radial velocities of stars, none to three planets, and wide priors on the period.

    python -m benchmarks.suites.eprv3 [names] [--models FOLDER] [--form smooth|plain] [--seeds N] [--out FILE] [--table]

A name is a data set, a prior and a number of planets: `1a1` is data set 1 with prior a and one planet. The folder must
hold the models (`eprv3.py`) and the truths (`eprv3.json`), which are no part of this repository. Each run appends a
row, and the rows of the file become a table (see `benchmarks.suites.run`).
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suites.run import read, run_all, table

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "suite"
NAMES = ("1a1", "2a1", "3a1")


class Velocities(NamedTuple):
    """Arguments of `qpaths.evidence`, and the truth."""

    arguments: dict[str, Any]
    truth: float
    truth_se: float


def models_in(folder):
    """The module with the models, and the truths by name."""
    file, truths = folder / "eprv3.py", folder / "eprv3.json"
    missing = [str(one) for one in (file, truths) if not one.exists()]
    if missing:
        sys.exit(f"no EPRV3 here: {' and '.join(missing)} not found. Give the folder that holds them by `--models`.")
    spec = importlib.util.spec_from_file_location("eprv3_models", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, json.loads(truths.read_text(encoding="utf-8"))


def problem(module, truths, name, form):
    number, which, planets = int(name[:-2]), name[-2], int(name[-1])
    truth = truths[f"{number}{which}, {planets} planets"]
    arguments = {
        "prior": module.prior(planets, form),
        "log_likelihood": module.log_likelihood(form),
        "data": module.load(number, planets, which),
    }
    return Velocities(arguments, truth["logz"], truth.get("se", 0.0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, help="data set, prior and planets, such as 2a1")
    parser.add_argument("--models", type=Path, default=FOLDER, help="folder of eprv3.py and eprv3.json")
    parser.add_argument("--form", choices=("smooth", "plain"), default="smooth", help="how the model is written")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, help="evaluations; the library's defaults unless given")
    parser.add_argument("--out", type=Path, default=Path("eprv3.jsonl"))
    parser.add_argument("--table", action="store_true", help="run nothing, show the table of the rows that are there")
    arguments = parser.parse_args()
    module, truths = models_in(arguments.models)

    def made(name):
        return lambda: problem(module, truths, name, arguments.form)

    if not arguments.table:
        problems = {name: made(name) for name in arguments.names}
        run_all(list(arguments.names), problems, arguments.seeds, arguments.budget, arguments.out)
    rows = [row for row in read(arguments.out) if row["target"] in arguments.names]
    if rows:
        table(list(arguments.names), rows)


if __name__ == "__main__":
    main()
