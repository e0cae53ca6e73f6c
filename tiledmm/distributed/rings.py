"""A grid row or column as a ring of sockets: a rank has a socket to the next rank and one from the previous rank."""

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

#: What a message begins with: its bytes.
SIZE = struct.Struct("!Q")

# Bytes that a rank receives before it passes them on.
_PART = 1 << 20

# Seconds between two looks at what else may have happened.
TICK = 0.1

# What a connection begins with: the attempt, and the axis of its ring.
_HELLO = struct.Struct("!16sB")


class CollectiveError(TiledmmError, ConnectionError):
    """A product of several ranks that one of them did not finish: it died, failed, or was silent past the deadline."""


class Ring:
    """A grid row or column, seen from one rank.

    Args:
        place: The rank's place in it.
        size: Ranks in it.
        onward: Socket to the next rank; None in a ring of one.
        backward: Socket from the previous rank.
        deadline: Seconds that a part may take.
    """

    def __init__(
        self, place: int, size: int, onward: socket.socket | None, backward: socket.socket | None, deadline: float
    ) -> None:
        self.place, self.size, self.onward, self.backward = place, size, onward, backward
        for each in self.sockets():
            each.settimeout(deadline)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def broadcast(self, root: int, data: memoryview) -> None:
        """Sends the root's bytes to all, or fills the others' ``data`` with them."""
        steps = (self.place - root) % self.size
        for begin in range(0, len(data), _PART):
            part = data[begin : begin + _PART]
            if steps:
                self._receive(part)
            if steps < self.size - 1:
                self._send(part)

    def exchange(self, message: bytes) -> list[bytes]:
        """Everybody's messages, in the order of places. It is a barrier, too."""
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
        with _as_collective_error("the next rank takes nothing", self.onward):
            self.onward.sendall(data)

    def _receive(self, data: memoryview) -> None:
        assert self.backward is not None
        with _as_collective_error("the previous rank sends nothing", self.backward):
            _receive(self.backward, data)

    def close(self) -> None:
        """Ends what is under way, also in another thread."""
        for each in self.sockets():
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def free(self) -> None:
        """Gives the sockets back, once no thread uses them."""
        for each in self.sockets():
            each.close()

    def sockets(self) -> list[socket.socket]:
        """Those that it has."""
        return [each for each in (self.onward, self.backward) if each is not None]


def listen(host: str) -> socket.socket:
    """A socket that listens at a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=16)


def connect(
    address: Address, attempt: bytes, axis: int, deadline: float, check: Callable[[], None] = lambda: None
) -> socket.socket:
    """Return a socket to a peer that listens, which is told what it is for.

    Args:
        address: Where it listens.
        attempt, axis: What it is told.
        deadline: Seconds that connecting may take.
        check: Called now and then while it waits: a host that has vanished refuses nothing.

    Raises:
        CollectiveError: If nobody listens there, or none answers within the deadline; what ``check`` raises.
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
    """The axis of the ring that a peer wants to be in; None if it is no peer of this attempt."""
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
    """Whether the other end is gone. Another thread may use the socket meanwhile.

    On Linux it is seen also where the other end has left something to be read; elsewhere not before that is read.
    """
    if peer.fileno() < 0:
        return True
    if hasattr(select, "POLLRDHUP"):
        poll = select.poll()
        poll.register(peer, select.POLLRDHUP)  # errors are always reported
        return bool(poll.poll(0))
    with peer.dup() as other:  # whose timeout is its own
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
