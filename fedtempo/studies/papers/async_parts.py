"""Async-memory with a switch for each part that CA2FL lacks; settings name it by module and class."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies import AsyncMemory
from fedtempo.strategies.asynchronous import fastest_clients, train_always
from fedtempo.strategies.mixing import Mixer


@dataclass(frozen=True, config=STRICT)
class AsyncMemoryParts(AsyncMemory):
    """Async-memory whose differences from CA2FL can be switched off one by one.

    With `buffer` = M, `mean_of` = "all", `next_client` = "any", `exponent` = 0 and `memory` = 1 it is CA2FL with the
    step `gain`. M changes make one commit: w <- w + sum of beta / M * (d - m_i + mean of all m at the last commit).
    """

    buffer: Annotated[Count, Doc("number of changes per commit")] = 1
    mean_of: Annotated[
        Literal["heard", "all"],
        Doc("mean of the remembered changes: over the clients heard so far, or all within reach"),
    ] = "heard"
    next_client: Annotated[
        Literal["fewest", "any"], Doc("the next client: an idle one with the fewest visits, or any idle one")
    ] = "fewest"

    def __post_init__(self) -> None:
        if self.clusters is not None or not self.correction:
            raise ValueError("AsyncMemoryParts has no clusters and always corrects: use async-memory for these")

    async def run(self, fed: Federation) -> None:
        among = [fed.clients[i] for i in fastest_clients(fed, [0] * len(fed.clients), self.reach)]
        mixer = self.mixer(fed, range(len(fed.clients)), _BufferedMixer)
        assert isinstance(mixer, _BufferedMixer)
        mixer.buffer, mixer.clients = self.buffer, len(among) if self.mean_of == "all" else None
        visits = Counter[int]()

        def fewest_visits(client: Client) -> int:
            return visits[client.id]

        def count(client: Client) -> None:
            visits[client.id] += 1

        async def mix(update: Update) -> None:
            await mixer.commit(update.received, update.model, update.client.id)

        prefer: Any = fewest_visits if self.next_client == "fewest" else None
        await train_always(fed, self.clients_at_once, mix, among=among, prefer=prefer, begins=count)


class _BufferedMixer(Mixer):
    """A mixer that commits when `buffer` changes have arrived. clients: by how many the sum of memories is divided."""

    buffer = 1
    clients: int | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sum: Model | float = 0.0
        self._total_now: Model | float = 0.0
        self._total_committed: Model | float = 0.0
        self._shares: dict[Model, float] = {}
        self._most_missed = 0

    async def commit(self, start: Model, trained: Model, client: int) -> None:
        async with self._turn:
            fed, gap = self._fed, self._fed.model.version - start.version
            share = self._weight(gap) / self.buffer
            self._sum, self._remembered[client], self._total_now = await fed.on_server(
                add_to_buffer,
                start,
                trained,
                collected=self._sum,
                remembered=self._remembered.get(client),
                committed=self._total_committed,
                total=self._total_now,
                memories=self.clients or len(self._remembered.keys() | {client}),
                share=share,
                memory=self._memory,
            )
            self._shares[trained] = share
            self._most_missed = max(self._most_missed, gap)
            if len(self._shares) < self.buffer:
                return
            kept = 1 - sum(self._shares.values())
            mixed = await fed.on_server(
                add_sum, fed.model, collected=self._sum, statistics_from={fed.model: kept, **self._shares}
            )
            fed.commit(mixed, staleness=self._most_missed)
            self._sum, self._total_committed, self._shares, self._most_missed = 0.0, self._total_now, {}, 0


def add_to_buffer(
    start: Vector,
    trained: Vector,
    *,
    collected: Vector | float,
    remembered: Vector | None,
    committed: Vector | float,
    total: Vector | float,
    memories: int,
    share: float,
    memory: float,
) -> tuple[Vector, Vector, Vector]:
    """Return the sum of what the buffer will add, with this change, and the updated memory and sum of memories.

    remembered: the client's memory, None at its first change; committed: the sum of memories at the last commit.
    """
    change = trained - start
    known = 0.0 if remembered is None else remembered
    update = change if remembered is None else memory * (change - remembered)
    return collected + share * (change - known + committed / memories), known + update, total + update


def add_sum(model: Vector, *, collected: Vector) -> Vector:
    """Return model + collected."""
    return model + collected
