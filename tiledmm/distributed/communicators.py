"""How ranks exchange panels: the interface, and the communicator over TCP.

Each grid row and each grid column is a ring: a rank has a socket to the next rank and one from the previous rank. A
broadcast goes round the ring in parts, and each rank passes a part on while the next one comes in, so that no rank
sends a panel more than once. One thread a ring does it, in the order in which broadcasts began. Every operation has a
deadline. A rank that fails closes its sockets; its peers see it and do the same, so all ranks end within moments.

Sockets are made for each product: it takes a millisecond, and no product finds what another one has left in them.
"""

from __future__ import annotations

import abc
import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledmm.distributed.grid import Layout
from tiledmm.distributed.local import as_bytes, from_host, to_host
from tiledmm.distributed.rings import SIZE, TICK, Address, CollectiveError, Ring, connect, greeting, is_closed

#: Axes of the grid: a broadcast goes along a grid row or a grid column.
ROW, COLUMN = 0, 1


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A broadcast along a grid row or column, as one of its ranks sees it.

    Attributes:
        axis: ``ROW`` or ``COLUMN``.
        root: The place in the row or column of the rank that has the panel.
        panel: The array, of any strides; None on ranks other than the root. Nobody writes into it meanwhile.
        shape: Its shape.
    """

    axis: int
    root: int
    panel: Any
    shape: tuple[int, int]


class Communicator(abc.ABC):
    """One rank's way to the others of its grid. All ranks call the same operations in the same order."""

    @abc.abstractmethod
    def broadcast(self, wanted: Sequence[Broadcast], like: Any) -> Callable[[], list[Any]]:
        """Begins broadcasts, all at once, and returns.

        Args:
            wanted: What to broadcast.
            like: An array of the panels' type, and of the place where they are wanted.

        Returns:
            A function that waits for the panels and returns them.

        Raises:
            CollectiveError: Here, or by that function: a rank failed, or was silent past the deadline.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it. Waiting peers see an error."""


class TcpCommunicator(Communicator):
    """Ranks that are connected by sockets; panels go through host memory.

    Args:
        layout: The grid.
        rank: The rank.
        listener: The rank's socket that listens. Its address is in ``addresses``.
        addresses: All ranks' addresses, by rank.
        attempt: 16 bytes that only the ranks of this product know.
        deadline: Seconds that an operation may take: connecting, a part of a panel, a message.
        check: Called now and then while it waits; raises if the product is not wanted any more.

    Raises:
        CollectiveError: A peer did not connect within the deadline, or closed its socket.
    """

    def __init__(
        self,
        layout: Layout,
        rank: int,
        listener: socket.socket,
        addresses: Sequence[Address],
        attempt: bytes,
        deadline: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        row, column = layout.place(rank)
        p_r, p_c = layout.grid
        self.rank, self._check, self._deadline = rank, check, deadline
        self._is_finishing = False
        following = {}
        if p_c > 1:
            following[ROW] = layout.rank(row, (column + 1) % p_c)
        if p_r > 1:
            following[COLUMN] = layout.rank((row + 1) % p_r, column)
        onward: dict[int, socket.socket] = {}
        backward: dict[int, socket.socket] = {}
        try:
            for axis, peer in following.items():
                onward[axis] = connect(addresses[peer], attempt, axis, deadline, check)
            self._accept(listener, attempt, set(following), onward, backward)
        except BaseException:
            for each in (*onward.values(), *backward.values()):
                each.close()
            raise
        places = {ROW: (column, p_c), COLUMN: (row, p_r)}
        self.rings = [Ring(*places[axis], onward.get(axis), backward.get(axis), deadline) for axis in (ROW, COLUMN)]
        self._threads = [ThreadPoolExecutor(1, f"tiledmm-ring-{rank}") for _ in self.rings]

    def _accept(
        self,
        listener: socket.socket,
        attempt: bytes,
        wanted: set[int],
        onward: dict[int, socket.socket],
        backward: dict[int, socket.socket],
    ) -> None:
        until = time.monotonic() + self._deadline
        listener.settimeout(TICK)
        while wanted - backward.keys():
            self._check()
            if time.monotonic() > until:
                raise CollectiveError(f"rank {self.rank} waited {self._deadline:g} s for a peer to connect")
            if any(map(is_closed, onward.values())):
                raise CollectiveError(f"a peer of rank {self.rank} gave up")
            with contextlib.suppress(TimeoutError):
                peer, _ = listener.accept()
                axis = greeting(peer, attempt)
                if axis in wanted - backward.keys():
                    backward[axis] = peer
                else:
                    peer.close()

    def broadcast(self, wanted: Sequence[Broadcast], like: Any) -> Callable[[], list[Any]]:
        """As ``Communicator.broadcast``."""
        begun = [self._begin(each, like) for each in wanted]
        return lambda: [self._result(each) if isinstance(each, Future) else each for each in begun]

    def _begin(self, wanted: Broadcast, like: Any) -> Any:
        """The panel, if it is there, or else the future of it."""
        ring = self.rings[wanted.axis]
        if ring.size == 1:
            return wanted.panel

        def work() -> Any:
            if wanted.panel is not None:
                ring.broadcast(wanted.root, as_bytes(to_host(wanted.panel)))
                return wanted.panel
            received = np.empty(wanted.shape, like.dtype)
            ring.broadcast(wanted.root, as_bytes(received))
            return from_host(received, like)

        return self._threads[wanted.axis].submit(work)

    def exchange(self, message: bytes = b"") -> list[bytes]:
        """Everybody's messages, by rank: along the rows, then along the columns. It is a barrier, too."""
        in_row = self._exchange(ROW, message)
        of_row = self._exchange(COLUMN, b"".join(SIZE.pack(len(each)) + each for each in in_row))
        return [each for joined in of_row for each in _split(joined)]

    def _exchange(self, axis: int, message: bytes) -> list[bytes]:
        ring = self.rings[axis]
        if ring.size == 1:
            return [message]
        # In the ring's thread, so that this one goes on looking at what else happens.
        found: list[bytes] = self._result(self._threads[axis].submit(ring.exchange, message))
        return found

    def finish(self) -> None:
        """Waits until all ranks have finished. From here on, peers may be gone: they have got what they wait for."""
        self._is_finishing = True
        self.exchange()

    def check(self) -> None:
        """Raises if the product is not wanted any more, or a peer has gone before it finished."""
        self._check()
        has_left = any(is_closed(each) for ring in self.rings for each in ring.sockets())
        if has_left and not self._is_finishing:  # in this order: another thread may be finishing
            raise CollectiveError(f"a peer of rank {self.rank} gave up")

    def _result(self, begun: Future[Any]) -> Any:
        self._check()
        while True:
            try:
                return begun.result(TICK)
            except NotYet:
                if begun.done():
                    return begun.result()
                self._check()

    def close(self, *, wait: bool = True) -> None:
        """As ``Communicator.close``. Its threads have ended when it returns, unless one may hang: then do not wait."""
        for ring in self.rings:
            ring.close()
        for thread in self._threads:
            thread.shutdown(wait, cancel_futures=True)
        for ring in self.rings:
            ring.free()


def _split(joined: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(joined):
        (size,) = SIZE.unpack_from(joined, at)
        at += SIZE.size + size
        found.append(joined[at - size : at])
    return found
