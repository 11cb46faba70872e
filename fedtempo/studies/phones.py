"""A fleet of 38 phones: when they lay still, and how fast other phones train and send.

Hours of rest come from StudentLife (Wang et al., UbiComp 2014) as packaged in niimpy 1.3.0, times and rates from the
repository of FLASH (Yang et al., WWW 2021). docs/fleets.md says what the rules are.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.fleet.devices import Device, Devices
from fedtempo.fleet.presence import merged

PHONES_NAME = "phones"
"""What `fedtempo fleet import` calls them."""
RECORD_BEGINS = "2013-04-03T00:00"
"""A Wednesday, New York time."""
HOURS = 21 * 24
LONGEST_REST_H = 24
"""A phone without a motion for longer is taken to be switched off."""
START_H = 12
"""Hour of the record at which runs start: noon."""
_HOUR_S = 3600.0

_BATCH_S = (28.621, 13.579, 10.681)
"""Mean time of FLASH's LSTM for a batch of 100 examples on each of three phones: `device_util.py`, Shakespeare."""
_PHONES_LIKE = (18820, 16428, 159)
"""How many phones of unknown model FLASH takes to be like each of them."""
_BATCHES = 100
_VARIATION = 0.06
"""Relative standard deviation on the slowest phone, 1.72 / 28.62."""
_DOWNLOAD_MBPS = (
    *(61.4, 33.2, 19.4, 81.2, 34.5, 31.0, 28.4, 38.2, 27.0, 35.1),
    *(30.0, 59.1, 72.8, 42.0, 59.6, 35.4, 55.0, 142.0, 26.0),
)
_UPLOAD_MBPS = (
    *(40.4, 24.6, 22.7, 54.4, 24.4, 21.6, 42.1, 26.3, 19.1, 29.8),
    *(20.9, 33.1, 51.4, 30.6, 47.0, 26.9, 5.4, 46.2, 3.5),
)
"""Mean rates of 19 phones in `speed_distri.json`, which FLASH divides kilobytes of 1024 bytes by."""


def fleet_of_phones(availability: dict[str, Any]) -> dict[str, Any]:
    """Return a `[fleet]` whose clients draw their speed and rates from those measured. availability: its table."""
    return {
        "compute": {
            "unit": "s/visit",
            "speed": {
                "kind": "discrete",
                "values": [round(_BATCHES * batch_s, 1) for batch_s in _BATCH_S],
                "weights": list(_PHONES_LIKE),
            },
            "variation": _VARIATION,
        },
        "link": {"kind": "rates", "download_bps": _rates(_DOWNLOAD_MBPS), "upload_bps": _rates(_UPLOAD_MBPS)},
        "estimates": "exact",
        "availability": availability,
    }


def recorded_phones(start_h: int = START_H) -> Devices:
    """Return the phones with their windows, which repeat after three weeks. start_h: hour of the record at time 0."""
    period_s = HOURS * _HOUR_S
    return Devices(
        tuple(
            Device(phone, windows=tuple(_windows(np.roll(hours_at_rest(phone), -start_h))), period_s=period_s)
            for phone in sorted(PHONES)
        ),
        "s/visit",
    )


def recorded_intervals(horizon_s: float, start_h: int = START_H) -> list[list[float]]:
    """Return [phone, begin, end] of each window that begins before a horizon, for an inline trace."""
    weeks = 1 + int(horizon_s // (HOURS * _HOUR_S)) + 1
    return [
        [phone, begin, end]
        for phone, name in enumerate(sorted(PHONES))
        for begin, end in _windows(np.tile(np.roll(hours_at_rest(name), -start_h), weeks))
        if begin < horizon_s
    ]


def hours_at_rest(phone: str) -> npt.NDArray[np.bool_]:
    """Return whether a phone is available in each hour of the record."""
    return np.unpackbits(np.frombuffer(base64.b64decode(PHONES[phone]), np.uint8)).astype(bool)


def _windows(hours: npt.NDArray[np.bool_]) -> list[tuple[float, float]]:
    return merged((hour * _HOUR_S, (hour + 1) * _HOUR_S) for hour in np.flatnonzero(hours).tolist())


def _rates(mbps: tuple[float, ...]) -> dict[str, Any]:
    return {"kind": "discrete", "values": [round(1e6 * rate) for rate in mbps]}


PHONES = {
    "u00": "/gJH/mAH/gIA//gBv+Dn/gAPf4gb/gDf/gAH/ggH//Ee/8fl/gAO/kAb7gAH/mIG/gAP/8ES/9/h/gCGviJB",
    "u01": "nwCYv+BDf8AiP/zA//ggH+BB//hP/wZY/1g/fwDR//mH//j4/+B7//wH/4Bjf+AI/4AAX4H9/wAH/6A+//AD",
    "u02": "/4NY/8DH/4IGP/Oof/UKP+MHv8Dn/8II/6MF/8Akf6CbP+we/8aH/5OxP4cJv8A8/4Mt/+SAf7DLf4aNf8BX",
    "u03": "f6gAAAAAACj//xvgAAAAAAhwAAAAACgAAAAAAAAAAA3P//r///gAAAAAAAj///YAAAAAAAAAAB2///D//8AA",
    "u04": "/gDg/gBw/iAJ8GAN/x4L/iDA/gBg/iAh/gKR/iAB/MAA/wgAPgDF/kB1/AhAPoIQfAkH/ECH/6MIfiIgfwAh",
    "u05": "/yAAf6AP/yAH/+z5P+PIf6gBf6Bj/4AEf6I//6B//+eh/6MAf6HAAAAAACGB/+K///wZ//OT/8+OfyPJ/1mq",
    "u07": "/6AiA+BH/4AQfHgB/n4AeCD///Dv/4f3/+AP/4DX///gB//h//jAB/gAf6hn/8AT/4AH//2B/8aB//iWB/zX",
    "u09": "/wDF/yAE/4D8P8AAf/AR/4DPf6AE/4DAf8ED/wGAH/wOf9o//4DXf5CB/6DAv8DE/4CB/H4B/nCB/gWWX5AS",
    "u10": "/yDPfxC//wMf/3TO/3XP/yGH/yKP/wDn/wGn/wL1/3c//2fv/yGe/wOL/wQX/wLn/wGzfzU//3YP/yHn/wGD",
    "u14": "fiAAf4AIfi8AH9BIH5DI/6EwfmIAfqNAf4KPvi8D//QAP5cO/yGAH+CD/qtAH6KMfgwAH/4A35fOf6AAP6LI",
    "u15": "fxEjP//3/o2//cD//+4F/zDgfyH3fxAAAAAAABT//PD//+2d/RCC/+BBf/P///L//+P///wn/7n6/wHG/wAA",
    "u16": "/wcL/8Af/qCP//yZ/+IHfwwH//Af/wCL/+KH/zmH//6V/9n3X6+P/8gf/wbP/6KA/yyf/z///7eL/4zI/7wf",
    "u17": "/6C//6H1/6Q3/9SK/97Pv6fwAAAAAAH//4I//4gAAAAAP/mj/yFsH7eD/4J7/4MD/4M5/+T/3/2N/+Q7/6YD",
    "u18": "vwOMAAAAAAP3/6AAAAAAAAeP//+O/wPmPwKF/SP///n//jj0/weR/xgL/wGD/wIP///P/Ztv/wsd///TwBop",
    "u19": "/yNh/6Mf/4Hz/nx+PyPXf6DF/6AS/yBnf4N+f6PH//mWf0GD/6P9/6HJf4JIvyEJf6Px///ff//R/4se/6AA",
    "u20": "f4/lf+AAAAAAAAABf/+b/87///g7/8///+KZ/483/3ef/3AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAf62///ty",
    "u23": "///34B//9f/z/1UT+b5f8b/39l/v8W///DKv8GQ3/Hqn/v/30AAAAAAP8e/n//35/e47/4f/eCo/9GHv/0Mf",
    "u24": "/+AQB+P//+AZf/GIP/3gf4EJ/+OAAAAAAAALfggKP/CDf/gL3/AMP/Y4N/gHP/wB/+gYD/gEf/hBv/B0OH+f",
    "u27": "PwEP/+J//wH9///f/v5//wAAAAAC/wPP/wIZ/2xD///9T/8Kv+AcL/8gfwG2PwA7fwIM//9Mv/+BMQcQX/+T",
    "u30": "/4DEb4BJ/4DAOQH//+4D/4CA//AD/6GED+CC/4DoBwAj//AB/wkDf4gL/wEY/6Ib/4DKCYA7//AB/4Dcf8AF",
    "u31": "/HtA7wBH/4EG/7DB//R8P0AL33gmP4MC3+CGT+Hzf8YAD3sQZ+CEr7jAf+OCZ+Bob+P0997Bz/5AFoKDAn+R",
    "u32": "/4GAf8MD/0IH/5BAf//d/6D//6HGf4BgP4IBfyACX8AAAAAAAAAAAAAAAAAAf+AAf4AA/8GIP86RP6ECP4GC",
    "u33": "+4D/P+POfwCP//sZ3+fkPgAdf+RNT8AH/4CJf+Be7/7/Z/ju34DhD/+A/YEAP+MR+9APv/3P4/gAH/Agev6z",
    "u34": "f4Gc//gCf4MGf+AA/+H///IDf+AQAAAAAAIu//PO/+XAAAAAH/AOAAAAAAAHv/O3/+ZX//PgAAAAf/fq//ma",
    "u35": "f+Ht/+I//6PG//wAAAAA/4/Af8FI//eAf4AO/+f+//zf//P8//P//+Aif+LD/4cA/+YAAAAAAAcD//M4/6GB",
    "u36": "P5c3f8fk/98gf/23P+l+/4DOf4f+/5+Z/5+Cf7fHf8dRf9g/v8j//+PMf5VH38QAYnD83+AA/8A4/6AAf+AA",
    "u42": "f4no//J+f6BG/+cAAAAD/65/f9h5/6P+f+Je/4x+/+zT//v+f/9//5hz/6C//+AH/45AAAAAAA5//45y/5h/",
    "u43": "/4AE/wCk/4EP/5oH/8MH/4Cd/wPP/6AN/wMT/6Of/5jP/+QAf4Gd34Pn/4CI/wGD/wAD/wMyP8AN//4cb+Dl",
    "u44": "/yg///P+/yD/v1/f//v9/6Cf/+/t/6i//7/f/6hb/+/8AAAAAAAP/6Pv/6L//4d//6jb/z/f/4e3/wn9/+T/",
    "u45": "f4EAv4YOH4ZAf+QAAAAD/6QBf+P///nOf8JOf4H+v+THj+MAf/3OAAAAAACHf/Mf/8AAAAAAAAZzL/Z1//gA",
    "u47": "AAAnflP//sgAAAAAAAAAAAAAAAAAAAAAAFGP/+nJ//+///wSf3in/ne//n+n/mn3/+il//67//P85/yn/39/",
    "u49": "h4I0lwID/wWH/8MD/74BvwHB/wETlwgwl4D+CyJ/O8ED/9H4n4MH/4TCP4ADvwCH/oAeH/Gjnxfl/ZjLf4QK",
    "u51": "v///f4AP/8cB//AD/+MD//PBf/P+//Gwf+AF/8OB//yQ/9jv/8LQf/1nP+NH3+EH/5//f/zY//eE//fE/+ch",
    "u52": "AKAGADASf4Of//ivf9cf38wXf4KX/8B8X4Od3/jsv/Ug//6xf/Gf/8Mf33zt/8PP//Dv//m///4S/8Gb/6Wn",
    "u53": "/8Cb/+bH7wQf///gP8cv/4YP/8/j/4MP//Nf/6f/f+P7//D/7+Y+X+f///ev/+PY/+AR7/n///u///hc7/2/",
    "u56": "/+gw/8IM/5wh//AIf/8P/4eS/8UB/8Bg///0f8kw//kJ/+CJ38wy/+CH/9IW/+bwP4kD//8I//AD/+EA/9DR",
    "u58": "f6SP/hH9/437/8xVfzgf/49/f/HD/4hL//xD/6nv/7QX//h7/6mf/xPP/4cH/uOIPowf/+Y///jV/6fH/PE4",
    "u59": "HyAAngBNrgAaH+xBf/IDPgAP/gBEf4D///gPPhCgL+ECA+AEDjgGf+AHnjgAngMG/iAFH+AAh/IDrgAMXjhE",
}
"""The hours of each phone from `RECORD_BEGINS` on: one bit per hour, 1 if available, first hour first, in base64.

`tools/phones.py` derives and checks them.
"""
