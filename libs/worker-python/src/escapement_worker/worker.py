"""Putting a worker together, and running it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import TypeVar
from urllib.parse import urlsplit

from escapement_worker import payload
from escapement_worker.context import RunContext
from escapement_worker.errors import ConfigurationError
from escapement_worker.keeper import Identity, Keeper, Shutdown, Summary
from escapement_worker.link import Dispatcher, Tls
from escapement_worker.work import Handler, typed

SLOTS_MAX = 10_000
"""The most runs at a time that a worker can ask for."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

H = TypeVar("H", bound=Handler)
P = TypeVar("P")
R = TypeVar("R")


class Worker:
    """Takes runs from queues, hands them to handlers, and reports how they ended until that is in the ledger."""

    def __init__(
        self,
        address: str | Sequence[str],
        token: str,
        *,
        queues: Sequence[str] = ("default",),
        slots: int = 4,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        version: str = "",
        tls_ca: bytes | None = None,
        tls_certificate: bytes | None = None,
        tls_key: bytes | None = None,
        drain: float = 30.0,
    ) -> None:
        """ConfigurationError says what is missing or wrong.

        Args:
            address: of dispatchers, `http://host:port` or `https://host:port`; more than one lets the worker keep
                its runs when one ends.
            token: a token of role worker.
            queues: to take runs from.
            slots: runs at a time.
            name: what people call the worker; `worker-` and the process id if not given.
            labels: for people.
            version: the program's, for people.
            tls_ca: the certificate, in PEM, of the authority that `https` dispatchers are checked against.
            tls_certificate: what the worker shows, in PEM, to dispatchers that ask for a certificate.
            tls_key: the key of that certificate, in PEM.
            drain: how many seconds a stop may take in all. Work that still runs `kill_grace` and 1 s before its end
                is stopped.
        """
        addresses = [address] if isinstance(address, str) else list(address)
        if not addresses:
            raise ConfigurationError("no dispatcher was given")
        if isinstance(queues, str) or not queues or not all(queues):
            raise ConfigurationError(f"queues={queues!r}: give a list of names, for example ['billing']")
        if not 1 <= slots <= SLOTS_MAX:
            raise ConfigurationError(f"{slots} slots: use 1 to {SLOTS_MAX}")
        if not token or not token.isascii() or not token.isprintable():
            raise ConfigurationError("the token is missing, or has characters that no token has")
        if not drain >= 0:
            raise ConfigurationError(f"drain={drain!r}: give seconds, 0 or more")
        if (tls_certificate is None) != (tls_key is None):
            missing = "tls_certificate" if tls_certificate is None else "tls_key"
            raise ConfigurationError(f"{missing} is missing: give the certificate and its key together")
        self._tls = Tls(tls_ca, tls_certificate, tls_key) if tls_ca else None
        self._dispatchers = [_dispatcher(one, self._tls) for one in addresses]
        self._token = token
        self._identity = Identity(
            name=name or f"worker-{os.getpid()}",
            queues=tuple(queues),
            slots=slots,
            labels=dict(labels or {}),
            version=version,
        )
        self._drain = drain
        self._handlers: dict[str, Handler] = {}
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._stopped = False

    def handler(self, name: str) -> Callable[[H], H]:
        """Registers a handler for jobs whose work is `handler: {name: …}` with this name; as a decorator or called.

        A plain function gets a thread for each run; a coroutine function runs in an event loop that all of the
        worker's coroutines share. What it returns is added to the run's output; what it raises is the run's failure.
        """

        def register(handler: H) -> H:
            self._register(name, handler, handler)
            return handler

        return register

    def typed_handler(
        self, name: str, expected: Callable[..., P]
    ) -> Callable[[Callable[[RunContext, P], R]], Callable[[RunContext, P], R]]:
        """The same for a handler that takes the job's payload as its second argument, of its own type.

        Args:
            name: what jobs call it.
            expected: a dataclass, a TypedDict, a plain type, or a function that takes the parsed JSON and returns what
                the handler takes, or raises ValueError.

        With a payload that does not fit the handler is not called: the attempt ends as `NOT_STARTED`, and its error
        names the run and the field. That counts as a failed attempt; the job's `retry` says whether there is another.
        """
        payload.check(expected)

        def register(handler: Callable[[RunContext, P], R]) -> Callable[[RunContext, P], R]:
            self._register(name, handler, typed(handler, expected))
            return handler

        return register

    def _register(self, name: str, given: object, handler: Handler) -> None:
        if not name:
            raise ConfigurationError("the handler's name is empty")
        if not callable(given):
            raise ConfigurationError(f"the handler {name!r} can't be called")
        if name in self._handlers:
            raise ConfigurationError(f"there are two handlers {name!r}")
        self._handlers[name] = handler

    def run(self) -> Summary:
        """Works until SIGTERM, SIGINT or `stop`; then takes nothing more, finishes what is in hand, and returns.

        Dispatchers that can't be reached, or refuse the token, are tried again for as long as it takes. Signals are
        noticed in the program's main thread only, and the second one ends the process at once.
        """
        if not self._handlers:
            raise ConfigurationError("no handler was given")
        with self._lock:
            if self._keeper is not None:
                raise ConfigurationError("the worker runs already: make another one")
            find = partial(_dispatcher, tls=self._tls)
            handlers = dict(self._handlers)
            keeper = Keeper(self._identity, handlers, self._dispatchers, self._token, find, self._drain)
            self._keeper = keeper
            if self._stopped:
                keeper.inbox.put(Shutdown())
        if threading.current_thread() is not threading.main_thread():
            return keeper.run()
        before = {number: signal.getsignal(number) for number in _SIGNALS}

        def on_signal(number: int, frame: FrameType | None) -> None:
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            keeper.inbox.put(Shutdown())

        for number in _SIGNALS:
            signal.signal(number, on_signal)
        try:
            return keeper.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def stop(self) -> None:
        """Makes `run` finish what is in hand and return; from any thread, before it or after."""
        with self._lock:
            self._stopped = True
            if self._keeper is not None:
                self._keeper.inbox.put(Shutdown())


def _dispatcher(address: str, tls: Tls | None) -> Dispatcher:
    try:
        parts = urlsplit(address)
        host, port, scheme = parts.hostname, parts.port, parts.scheme
    except ValueError:
        host, port, scheme = None, None, ""
    if scheme not in ("http", "https") or not host or parts.path not in ("", "/") or parts.query or parts.username:
        raise ConfigurationError(
            f"{address!r} is not the address of a dispatcher: use http://host:port or https://host:port"
        )
    if scheme == "https" and tls is None:
        raise ConfigurationError(f"{address!r} needs the certificate of the authority that signed it (tls_ca)")
    host = f"[{host}]" if ":" in host else host
    default = 443 if scheme == "https" else 80
    return Dispatcher(address, f"{host}:{port or default}", tls if scheme == "https" else None)
