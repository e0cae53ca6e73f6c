"""Grid rows and columns as rings of sockets: each rank has a socket to the next rank and one from the previous rank."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from tiledmm.errors import TiledmmError

Address: TypeAlias = tuple[str, int]

#: Header of a message: its length in bytes.
SIZE = struct.Struct("!Q")

# Bytes that a rank receives before it forwards them.
_PART = 1 << 20

# Seconds between two checks for failures during a wait.
TICK = 0.1

# First bytes of a connection: the attempt's secret, and the axis of the ring.
_HELLO = struct.Struct("!16sB")


class CollectiveError(TiledmmError, ConnectionError):
    """Failure of a product of several ranks: one of them died, failed, or was silent past the deadline."""


class Ring:
    """A grid row or column, as seen from one rank.

    Args:
        place: Position of the rank in the ring.
        size: Number of ranks in the ring.
        onward: Socket to the next rank; None in a ring of one.
        backward: Socket from the previous rank; None in a ring of one.
        deadline: Seconds that one part of a message may take.
    """

    def __init__(
        self, place: int, size: int, onward: socket.socket | None, backward: socket.socket | None, deadline: float
    ) -> None:
        self.place, self.size, self.onward, self.backward = place, size, onward, backward
        for each in self.sockets():
            each.settimeout(deadline)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def broadcast(self, root: int, data: memoryview) -> None:
        """Send the data of one rank to all ranks of the ring. Every rank calls this at the same time.

        Args:
            root: Position in the ring of the rank that sends.
            data: On that rank the bytes to send; on the others memory of the same size, which they are written to.

        Raises:
            CollectiveError: If a neighbour closed its socket, or was silent past the deadline.
        """
        steps = (self.place - root) % self.size
        for begin in range(0, len(data), _PART):
            part = data[begin : begin + _PART]
            if steps:
                self._receive(part)
            if steps < self.size - 1:
                self._send(part)

    def exchange(self, message: bytes) -> list[bytes]:
        """Send a message to all ranks, and return the messages of all ranks in the order of the ring.

        This is a barrier: it waits for all ranks. It raises CollectiveError if a neighbour closed its socket, or was
        silent past the deadline.
        """
        found = [b""] * self.size
        found[self.place] = message
        for step in range(1, self.size):
            self._send(SIZE.pack(len(message)) + message)
            message = self._message()
            found[self.place - step] = message
        return found

    def _message(self) -> bytes:
        head = bytearray(SIZE.size)
        self._receive(memoryview(head))
        body = bytearray(SIZE.unpack(head)[0])
        self._receive(memoryview(body))
        return bytes(body)

    def _send(self, data: Any) -> None:
        assert self.onward is not None
        with _as_collective_error("the next rank does not receive", self.onward):
            self.onward.sendall(data)

    def _receive(self, data: memoryview) -> None:
        assert self.backward is not None
        with _as_collective_error("the previous rank does not send", self.backward):
            _receive(self.backward, data)

    def close(self) -> None:
        """Shut the sockets down, without closing them. Transfers in progress end with an error in their threads."""
        for each in self.sockets():
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def free(self) -> None:
        """Close the sockets. No thread may use them any more."""
        for each in self.sockets():
            each.close()

    def sockets(self) -> list[socket.socket]:
        """Return the sockets of this rank: two, or none in a ring of one."""
        return [each for each in (self.onward, self.backward) if each is not None]


def listen(host: str) -> socket.socket:
    """Return a new socket that listens on a free port of an address of this host."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=16)


def connect(
    address: Address, attempt: bytes, axis: int, deadline: float, check: Callable[[], None] = lambda: None
) -> socket.socket:
    """Connect to a listening peer, send it the attempt's secret and the axis, and return the connected socket.

    Args:
        address: Host and port on which the peer listens.
        attempt: Secret of the attempt, 16 bytes.
        axis: Axis of the ring that the connection belongs to.
        deadline: Seconds that the connection may take.
        check: Function that is called every 0.1 s during the wait, because a host that is down refuses no connection.
            Its exceptions pass through.

    Raises:
        CollectiveError: If no peer listens there, or none answers within the deadline.
    """
    where, until = f"no peer at {address[0]}:{address[1]}", time.monotonic() + deadline
    made = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    try:
        with _as_collective_error(where):
            made.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                made.connect(address)
            while not select.select([], [made], [made], TICK)[1]:
                check()
                if time.monotonic() > until:
                    raise TimeoutError
            if error := made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            made.settimeout(deadline)
            made.sendall(_HELLO.pack(attempt, axis))
        return made
    except BaseException:
        made.close()
        raise


def greeting(peer: socket.socket, attempt: bytes) -> int | None:
    """Read the first bytes of a connection, and return the axis of the ring that the peer connects to.

    Args:
        peer: Accepted connection.
        attempt: Secret of the attempt, 16 bytes.

    Returns:
        The axis; None if the peer does not send the attempt's secret within a second.
    """
    peer.settimeout(1)
    hello = bytearray(_HELLO.size)
    try:
        _receive(peer, memoryview(hello))
    except OSError:
        return None
    theirs, axis = _HELLO.unpack(hello)
    return int(axis) if theirs == attempt else None


def _receive(peer: socket.socket, data: memoryview) -> None:
    while data:
        if not (count := peer.recv_into(data)):
            raise ConnectionResetError("it closed the connection")
        data = data[count:]


def is_closed(peer: socket.socket) -> bool:
    """Return whether the peer has closed the connection. Another thread may use the socket at the same time.

    Linux reports this even if data are left to be read. Other systems report it only after they have been read.
    """
    if peer.fileno() < 0:
        return True
    if hasattr(select, "POLLRDHUP"):
        poll = select.poll()
        poll.register(peer, select.POLLRDHUP)  # errors are always reported
        return bool(poll.poll(0))
    with peer.dup() as other:  # the copy has a timeout of its own
        other.setblocking(False)
        try:
            return other.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


@contextlib.contextmanager
def _as_collective_error(what: str, peer: socket.socket | None = None) -> Any:
    try:
        yield
    except TimeoutError as error:
        seconds = f" for {peer.gettimeout():g} s" if peer is not None else ""
        raise CollectiveError(f"{what}{seconds}: the deadline has passed") from error
    except OSError as error:
        raise CollectiveError(f"{what}: {error}") from error
