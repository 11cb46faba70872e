"""Random faults, from one number: runs resume to the same bits, and deployments keep what must hold.

CHAOS=SEED chooses the sequence of trials (default: a new one each time), CHAOS=SEED:TRIAL repeats one of them.
CHAOS_SECONDS: no trial begins after these (default: 600). CHAOS_FAULTS: nor after so many faults have hit.
"""

from __future__ import annotations

import os
import secrets

import pytest

from tests.chaos.figures import figures, section
from tests.chaos.trials import Extent, carried_out


@pytest.mark.chaos
def test_whatever_fails_runs_resume_and_deployments_keep_their_promises() -> None:
    chosen = os.environ.get("CHAOS", str(secrets.randbits(32)))
    extent = Extent.of(
        chosen, float(os.environ.get("CHAOS_SECONDS", "600")), float(os.environ.get("CHAOS_FAULTS", "inf"))
    )
    outcomes = list(carried_out(extent))
    result = figures(outcomes, extent.seed, f"CHAOS={chosen} pytest -m chaos")
    print(f"CHAOS={chosen}\n{section(result)}")
    wrong = [f"{outcome.trial}: {line}" for outcome in outcomes for line in outcome.violations]
    assert not wrong, "\n".join(wrong)
    assert result["faults"] > 0 or extent.number is not None
