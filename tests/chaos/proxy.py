"""A TCP proxy that can be told to cut and to delay: python -m tests.chaos.proxy ADDRESS TARGET ORDERS.

ADDRESS, TARGET: IPv4 addresses with ports. ORDERS: a file; each line, "cut" or "delay SECONDS", takes effect once.
"cut" passes on half of the next bytes that arrive from either side, and closes their connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

_CHUNK = 65536


class Proxy:
    """Passes bytes on between clients and `target`."""

    def __init__(self, target: tuple[str, int], orders: Path) -> None:
        self._target, self._orders = target, orders
        self._obeyed = len(self._read())  # what was ordered before belongs to a proxy that was killed
        self._cut, self._delay_s = False, 0.0

    def _read(self) -> list[str]:
        return self._orders.read_text().splitlines() if self._orders.exists() else []

    async def obey(self) -> None:
        """Carry out new orders as they come."""
        while True:
            orders = self._read()
            for order in orders[self._obeyed :]:
                kind, _, seconds = order.partition(" ")
                if kind == "cut":
                    self._cut = True
                else:
                    self._delay_s = float(seconds)
            self._obeyed = len(orders)
            await asyncio.sleep(0.02)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        directions = [self._pass_on(reader, other_writer), self._pass_on(other_reader, writer)]
        with contextlib.suppress(OSError):
            await asyncio.gather(*directions)
        for each in (writer, other_writer):
            each.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            delay_s, self._delay_s = self._delay_s, 0.0
            await asyncio.sleep(delay_s)
            if self._cut:
                self._cut = False
                writer.write(data[: len(data) // 2])
                await writer.drain()
                raise ConnectionAbortedError
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


async def main(address: tuple[str, int], target: tuple[str, int], orders: Path) -> None:
    """Serve until the process ends."""
    proxy = Proxy(target, orders)
    async with await asyncio.start_server(proxy.serve, *address):
        await proxy.obey()


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(main(_split(sys.argv[1]), _split(sys.argv[2]), Path(sys.argv[3])))
