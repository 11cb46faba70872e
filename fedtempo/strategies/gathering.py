"""Raw examples that consenting clients upload to the server (Hybrid-FL, Section IV-B)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, ClientUnavailable, Examples, Federation
from fedtempo.parts.fields import Doc
from fedtempo.strategies.planning.uploading import UploadRule, choose_uploads

Upload = Annotated[
    UploadRule,
    Doc("order of uploads: balance classes (Algorithm 3), or the client with the fastest link first"),
]

Uploaders = Annotated[
    Literal["candidates", "all"],
    Doc("consenting clients that may upload: the round's candidates (Protocol 2, line 2), or all"),
]


class Gathering:
    """The examples that the server has collected, and those that consenting clients report to still hold.

    Raises ConfigError if clients do not report how many examples of each class they hold.
    """

    def __init__(self, fed: Federation, rule: UploadRule) -> None:
        self._fed, self._rule = fed, rule
        self._left = {client: histogram(client) for client in fed.clients if client.shares_examples}
        self.examples: list[Examples] = []

    @property
    def clients(self) -> Collection[Client]:
        """Clients that agreed to upload examples."""
        return self._left.keys()

    @property
    def num_examples(self) -> int:
        """Number of examples at the server."""
        return sum(sum(upload.counts) for upload in self.examples)

    async def gather(self, clients: Collection[Client], until: float, *, group: int) -> None:
        """Let the consenting ones of `clients` upload, one after the other, as many examples as fit until `until`.

        A client that is unavailable costs the time that it was allotted.
        """
        fed = self._fed
        senders = [client for client in self._left if client in clients and self._left[client].any()]
        if not senders:
            return
        example_s = [fed.estimate_example_s(client) for client in senders]
        stock = np.array([self._left[client] for client in senders])
        uploads = choose_uploads(example_s, stock, until - fed.now, self._rule)
        wanted = uploads.counts(*stock.shape)
        for position in dict.fromkeys(uploads.clients.tolist()):  # by the time of their first upload
            client, start_s = senders[position], fed.now
            try:
                sent = await fed.upload_examples(client, wanted[position].tolist(), until=until, group=group)
            except ClientUnavailable:
                await fed.sleep_until(min(until, start_s + example_s[position] * float(wanted[position].sum())))
                continue
            if sent.size_bytes:
                self.examples.append(sent)
            left = self._left[client] - sent.counts
            if not sent.cut:
                left[wanted[position] > sent.counts] = 0  # it reported more than it holds
            self._left[client] = left


def histogram(client: Client) -> np.ndarray:
    """Return a client's number of examples of each class. Raises ConfigError if it does not report them."""
    if client.label_histogram is None:
        raise ConfigError("data.tell_labels = false: the number of examples of each class is needed; set it to true")
    return np.array(client.label_histogram)
