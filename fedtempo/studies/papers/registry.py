"""All figures and tables that `fedtempo reproduce` can make: those of the papers, and further experiments."""

from __future__ import annotations

from fedtempo.studies.papers import (
    beyond,
    claims,
    compression,
    csgd,
    directions,
    fch,
    fedhusky,
    hybrid_fl,
    league,
    psfl,
)
from fedtempo.studies.papers.reproduction import Exhibit

EXHIBITS: dict[str, Exhibit] = {
    exhibit.name: exhibit
    for module in (fedhusky, psfl, fch, csgd, hybrid_fl, directions, claims, league, beyond, compression)
    for exhibit in module.EXHIBITS
}
"""By name. `printed` is not empty for those of the papers."""
