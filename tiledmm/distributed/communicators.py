"""Exchange of panels between ranks: the interface of a communicator, and the communicator over TCP.

Each grid row and each grid column is a ring: a rank has a socket to the next rank and one from the previous rank. A
broadcast goes round the ring in parts. Each rank forwards a part while it receives the next one, so no rank sends a
panel more than once. Each ring has one thread, which runs broadcasts in the order in which they began. Every operation
has a deadline. A rank that fails closes its sockets; its peers notice and close theirs, so all ranks end within
moments.

Each product opens sockets of its own. That takes a millisecond, and no data of an earlier product can be left in them.
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

#: Axes of the grid: a broadcast runs along a grid row or along a grid column.
ROW, COLUMN = 0, 1


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A broadcast along a grid row or column, as one of its ranks sees it.

    Attributes:
        axis: Direction of the broadcast, ``ROW`` or ``COLUMN``.
        root: Position, within the row or column, of the rank that has the panel.
        panel: Array of any strides, which nobody writes during the broadcast; None on all ranks but the root.
        shape: Rows and columns of the panel.
    """

    axis: int
    root: int
    panel: Any
    shape: tuple[int, int]


class Communicator(abc.ABC):
    """Connection of one rank to the other ranks of its grid. All ranks call the same operations in the same order."""

    @abc.abstractmethod
    def broadcast(self, wanted: Sequence[Broadcast], like: Any) -> Callable[[], list[Any]]:
        """Start broadcasts, all at once, and return without waiting for the panels.

        Args:
            wanted: Broadcasts to start.
            like: Array with the type of the panels. They are received on the device of this array, or in host memory if
                this is a NumPy array.

        Returns:
            A function that waits for the panels and returns them, in the order of ``wanted``.

        Raises:
            CollectiveError: If a rank failed or was silent past the deadline; the returned function raises it, too.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Close the connection. Other ranks that wait for this one get an error."""


class TcpCommunicator(Communicator):
    """Communicator over TCP sockets. Panels pass through host memory.

    Args:
        layout: Process grid and the sizes of its blocks.
        rank: Number of this rank.
        listener: Socket on which this rank listens. Its address is in ``addresses``.
        addresses: Host and port of every rank, by rank.
        attempt: Secret of 16 bytes that only the ranks of this attempt share.
        deadline: Seconds that one operation may take: a connection, a part of a panel, or a message.
        check: Function that is called every 0.1 s during a wait. It raises if the product is no longer wanted.

    Raises:
        CollectiveError: If a peer did not connect within the deadline, or closed its socket.
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
        """Start broadcasts, and return a function that waits for their panels; see ``Communicator.broadcast``.

        The threads of the two rings run the broadcasts.
        """
        begun = [self._begin(each, like) for each in wanted]
        return lambda: [self._result(each) if isinstance(each, Future) else each for each in begun]

    def _begin(self, wanted: Broadcast, like: Any) -> Any:
        """Start a broadcast and return the future of its panel; in a ring of one rank, the panel itself."""
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
        """Return the messages of all ranks, by rank. This is a barrier: it waits for all ranks.

        Messages travel along the grid rows first, then along the grid columns.
        """
        in_row = self._exchange(ROW, message)
        of_row = self._exchange(COLUMN, b"".join(SIZE.pack(len(each)) + each for each in in_row))
        return [each for joined in of_row for each in _split(joined)]

    def _exchange(self, axis: int, message: bytes) -> list[bytes]:
        ring = self.rings[axis]
        if ring.size == 1:
            return [message]
        # The ring's thread exchanges the message, so that this thread can go on calling ``check``.
        found: list[bytes] = self._result(self._threads[axis].submit(ring.exchange, message))
        return found

    def finish(self) -> None:
        """Wait until all ranks have called this. From the call on, a peer that closes its sockets has not failed."""
        self._is_finishing = True
        self.exchange()

    def check(self) -> None:
        """Raise CollectiveError if a peer left before it finished, or if the product is no longer wanted."""
        self._check()
        has_left = any(is_closed(each) for ring in self.rings for each in ring.sockets())
        if has_left and not self._is_finishing:  # tested last: another thread may set it meanwhile
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
        """Close the sockets to the other ranks.

        Args:
            wait: Whether to wait for the threads that use them; False if one of the threads may hang.
        """
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
