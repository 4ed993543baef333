"""A TCP proxy before a broker that understands frames, and does wrong to requests to commit."""

import socket
import struct
import threading
import time

ADD_PARTITIONS_TO_TXN = 24
END_TXN = 26
# Beginnings of transactions until a request that was held back goes on: the one of the driver that
# comes next, with rows in it.
HOLDS = 2
# Seconds: more than clients wait before they ask again.
LATE = 0.15


class KafkaProxy:
    """`held`: each `every`-th request to commit goes on only when later transactions have begun.
    `lost`: it goes on at once, but its reply and all after it do not come back.
    `doubled`: as of a client that asked again because no reply came, the request arrives twice: once
    a moment late, and once more when later transactions have begun."""

    def __init__(self, fault: str, every: int):
        self.fault, self.every = fault, every
        self.upstream: int | None = None
        self.commits = self.faults = 0
        self.held: list[tuple[list[int], socket.socket, bytes]] = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.upstream))
            except OSError:
                client.close()
                continue
            mute = threading.Event()
            for run in (self._requests, self._replies):
                threading.Thread(target=run, args=(client, broker, mute), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, mute) -> None:
        held_here = False
        try:
            while frame := read_frame(client):
                (api,) = struct.unpack(">h", frame[4:6])
                if api == ADD_PARTITIONS_TO_TXN:
                    self._began()
                if api == END_TXN and self._is_due():
                    if self.fault == "held":
                        held_here = True
                        with self.lock:
                            self.held.append(([HOLDS], broker, frame))
                        continue
                    if self.fault == "doubled":
                        stray = socket.create_connection(("127.0.0.1", self.upstream))
                        with self.lock:
                            self.held.append(([HOLDS], stray, frame))
                        time.sleep(LATE)
                    else:
                        mute.set()
                broker.sendall(frame)
        except OSError:
            pass
        # What is held back still has to reach the broker.
        client.close()
        if not held_here:
            shut(broker)

    def _replies(self, client: socket.socket, broker: socket.socket, mute) -> None:
        try:
            while frame := read_frame(broker):
                if not mute.is_set():
                    client.sendall(frame)
        except OSError:
            pass
        client.close()

    def _is_due(self) -> bool:
        with self.lock:
            self.commits += 1
            due = self.commits % self.every == 0
            self.faults += due
            return due

    def _began(self) -> None:
        """A transaction got a partition: strays come closer."""
        with self.lock:
            for left, broker, frame in self.held:
                left[0] -= 1
                if left[0] == 0:
                    broker.sendall(frame)
            self.held = [it for it in self.held if it[0][0] > 0]


def read_frame(stream: socket.socket) -> bytes | None:
    size = read_exactly(stream, 4)
    if size is None:
        return None
    rest = read_exactly(stream, struct.unpack(">i", size)[0])
    return None if rest is None else size + rest


def read_exactly(stream: socket.socket, count: int) -> bytes | None:
    got = bytearray()
    while len(got) < count:
        piece = stream.recv(count - len(got))
        if not piece:
            return None
        got += piece
    return bytes(got)


def shut(stream: socket.socket) -> None:
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    stream.close()
