"""Chaos by hand: python -m tests.chaos --seed 1 --faults 1000 [--result]."""

from __future__ import annotations

import argparse
import math
import secrets
import signal
import sys

from tests.chaos.figures import figures, write
from tests.chaos.trials import Extent, carried_out


def main() -> int:
    """Carry out trials; return 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", default=str(secrets.randbits(32)), help="SEED, or SEED:TRIAL for one trial")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no trial begins after these")
    parser.add_argument("--faults", type=float, default=math.inf, help="no trial begins after so many faults")
    parser.add_argument("--result", action="store_true", help="write the result file and the page")
    given = parser.parse_args()
    extent = Extent.of(given.seed, given.seconds, given.faults)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends all processes that were started
    outcomes, hits = [], 0
    for outcome in carried_out(extent):
        outcomes.append(outcome)
        hits += outcome.injected.total()
        verdict = "violated" if outcome.violations else "held"
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.injected.items()))
        print(f"{outcome.trial}: {verdict}; {outcome.seconds:.1f} s; {faults or 'no fault hit'} ({hits})", flush=True)
    result = figures(outcomes, extent.seed, " ".join(["python -m tests.chaos", *sys.argv[1:]]))
    if given.result:
        write(result)
    print(
        f"{result['faults']} faults, {result['resumed']} resumptions, {len(result['violations'])} runs with violations"
    )
    return bool(result["violations"])


if __name__ == "__main__":
    sys.exit(main())
