"""The peers of `qpaths.evidence` on ten problems with known log evidence.

    python -m benchmarks.peers.run setup PEER ... | all
    python -m benchmarks.peers.run run [--peers ...] [--problems ...] [--seeds N] [--effort default|more] [--limit S]
    python -m benchmarks.peers.run report

`setup` makes an environment for each peer under `benchmarks/peers/.envs`. `run` answers each problem in a cold process
of that environment on one core, and appends one row for each run to `benchmarks/results/rows/peers.jsonl`; rows that
are there already are not run again. `report` writes `docs/peers.md`, its pictures and `benchmarks/results/peers.md`
from the rows.
"""

import argparse

from benchmarks.peers.densities import PROBLEMS
from benchmarks.peers.harness import PEERS, ROWS, run_all, set_up


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="make the environments")
    setup.add_argument("peers", nargs="+", choices=[*PEERS, "all"], metavar="PEER", help=f"{', '.join(PEERS)} or all")
    run = commands.add_parser("run", help="run what is not among the rows")
    run.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, metavar="PEER", help=", ".join(PEERS))
    run.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="PROBLEM")
    run.add_argument("--seeds", type=int, default=5)
    run.add_argument("--effort", choices=("default", "more"), default="default")
    run.add_argument("--limit", type=float, default=150.0, help="CPU seconds for one run")
    commands.add_parser("report", help="write the page and its pictures")
    arguments = parser.parse_args()
    if arguments.command == "setup":
        for peer in PEERS if "all" in arguments.peers else arguments.peers:
            print(f"{peer}: {'ready' if set_up(peer) else 'could not be installed'}", flush=True)
    elif arguments.command == "run":
        run_all(arguments.peers, arguments.problems, arguments.seeds, arguments.effort, arguments.limit)
    else:
        from benchmarks.peers.report import write

        write(ROWS)


if __name__ == "__main__":
    main()
