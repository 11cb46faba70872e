"""Types and texts for the fields of a strategy or another part of your own."""

from __future__ import annotations

from fedtempo.parts.fields import *  # noqa: F403  the same names, at their public place
