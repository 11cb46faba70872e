"""CS-GD's pipelined round: who computes, waits and sends when, on which sub-channel."""

from __future__ import annotations

from typing import Any

from fedtempo.strategies.planning.pipeline import openings, timeline, utilisation
from tests.golden.compare import close, same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    tau, tau_com, extra, server_s = (given[name] for name in ("tau", "tau_com", "delta_global", "tau_server"))
    k = len(given["members"])
    opens = openings(max(tau) + extra, k, tau_com)
    close(opens, expected["theta"], rel=1e-9, abs=1e-9, where="theta")
    found = timeline(tau, given["sampled"], opens, given["n_channels"], tau_com, server_s)
    events = [
        {
            "client": sending.client,
            "cluster": sending.cluster,
            "channel": sending.channel,
            "compute": [0.0, sending.computed_s],
            "wait": sending.wait_s,
            "upload": [sending.opens_s, sending.ends_s],
        }
        for sending in found.sendings
    ]
    close(events, expected["events"], rel=1e-9, abs=1e-9, where="events")
    close(found.sent_s, expected["last_upload_end"], rel=1e-9, where="last_upload_end")
    close([found.sent_s, found.round_s], expected["server"], rel=1e-9, where="server")
    close(found.round_s, expected["round_time"], rel=1e-9, where="round_time")
    close(found.channel_use, expected["channel_use"], rel=1e-9, where="channel_use")
    close(utilisation(k, tau_com, max(tau), server_s, extra), expected["eq19"], rel=1e-9, where="eq19")
    slowest = max(sending.computed_s for sending in found.sendings)
    close(slowest, expected["slowest_sampled"], rel=1e-9, where="slowest_sampled")
    same(slowest == max(tau), expected["slowest_of_all_is_sampled"], "slowest_of_all_is_sampled")
