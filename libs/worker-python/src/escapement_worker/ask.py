"""Asks every dispatcher whether it can reach the database.

Owns the connections that this takes, beside the session's own, and the thread that waits for the answers. Deliberately
decides nothing: what the answers allow is in `lease`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from escapement_worker._proto import STANDING_METHOD, worker_pb2
from escapement_worker.errors import ConfigurationError
from escapement_worker.lease import Peer, Question, is_without
from escapement_worker.link import Dispatcher, channel_to

_LIMIT = 2.0
"""Seconds for one dispatcher, connecting included."""


@dataclass(frozen=True)
class Answers:
    """All dispatchers were asked at `asked`; whether each is without the database."""

    asked: float
    without: tuple[bool, ...]


class Asker:
    """See the module. All methods are for the thread that keeps the session."""

    def __init__(self, token: str, find: Callable[[str], Dispatcher], tell: Callable[[Answers], None]) -> None:
        """Asks nobody yet; `find` says how the dispatcher at an address is reached."""
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._find = find
        self._tell = tell
        self._asking: threading.Thread | None = None

    def is_asking(self) -> bool:
        """True until the answers to the last question have been told."""
        return self._asking is not None and self._asking.is_alive()

    def ask(self, question: Question) -> None:
        """Asks them all at once, from a thread of its own."""
        self._asking = threading.Thread(target=self._ask_all, args=(question,), name="asker", daemon=True)
        self._asking.start()

    def _ask_all(self, question: Question) -> None:
        without: list[bool] = [False] * len(question.peers)

        def ask(index: int, peer: Peer) -> None:
            without[index] = self._ask(peer)

        threads = [
            threading.Thread(target=ask, args=asked, name="asker", daemon=True) for asked in enumerate(question.peers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._tell(Answers(question.asked, tuple(without)))

    def _ask(self, peer: Peer) -> bool:
        try:
            channel = channel_to(self._find(peer.address))
        except ConfigurationError:
            return False
        try:
            standing = channel.unary_unary(
                STANDING_METHOD,
                request_serializer=worker_pb2.StandingRequest.SerializeToString,
                response_deserializer=worker_pb2.StandingResponse.FromString,
            )
            answer = standing(worker_pb2.StandingRequest(), metadata=self._metadata, timeout=_LIMIT)
            return is_without(peer, answer)
        except grpc.RpcError:
            return False
        finally:
            channel.close()
