"""Raw examples that consenting clients upload to the server (Hybrid-FL, Section IV-B)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, ClientUnavailable, Examples, Federation
from fedtempo.parts.fields import Doc
from fedtempo.strategies.planning.uploading import UploadRule, choose_uploads

Upload = Annotated[
    UploadRule,
    Doc("which examples are uploaded first: class by class (Algorithm 3), or all of the client with the fastest link"),
]


class Gathering:
    """The server's examples, which it keeps, and what the clients that agreed to upload have told that they still hold.

    Raises ConfigError where clients do not tell how many examples of each class they hold.
    """

    def __init__(self, fed: Federation, rule: UploadRule) -> None:
        self._fed, self._rule = fed, rule
        self._left = {client: histogram(client) for client in fed.clients if client.shares_examples}
        self.examples: list[Examples] = []

    @property
    def clients(self) -> Collection[Client]:
        """Those that agreed."""
        return self._left.keys()

    @property
    def num_examples(self) -> int:
        """At the server."""
        return sum(sum(each.counts) for each in self.examples)

    async def gather(self, clients: Collection[Client], until: float, *, group: int) -> None:
        """Have as much as fits uploaded from now to `until`, by those of `clients` that agreed, one after the other.

        A client that is not there costs the time that it was given.
        """
        fed = self._fed
        senders = [client for client in self._left if client in clients and self._left[client].any()]
        if not senders:
            return
        example_s = [fed.estimate_example_s(client) for client in senders]
        stock = np.array([self._left[client] for client in senders])
        uploads = choose_uploads(example_s, stock, until - fed.now, self._rule)
        wanted = uploads.counts(*stock.shape)
        for place in dict.fromkeys(uploads.clients.tolist()):  # in the order in which they would send their first
            client, asked = senders[place], fed.now
            try:
                sent = await fed.upload_examples(client, wanted[place].tolist(), until=until, group=group)
            except ClientUnavailable:
                await fed.sleep_until(min(until, asked + example_s[place] * float(wanted[place].sum())))
                continue
            if sent.size_bytes:
                self.examples.append(sent)
            left = self._left[client] - sent.counts
            if not sent.cut:
                left[wanted[place] > sent.counts] = 0  # it told more than it holds
            self._left[client] = left


def histogram(client: Client) -> np.ndarray:
    """Examples of each class that a client tells. Raises ConfigError where it does not."""
    if client.label_histogram is None:
        raise ConfigError("data.tell_labels = false: the numbers of examples of each class are needed; set it to true")
    return np.array(client.label_histogram)
