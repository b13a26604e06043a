"""What can be wrong before any work is done."""

from __future__ import annotations


class ConfigurationError(ValueError):
    """A worker's parts are missing or wrong; the text says which, and what to give instead."""


class PayloadError(ValueError):
    """A run's payload is not what the handler expects; the text names the run, the type and the place.

    Raised by a handler it fails the run. Of a typed handler it keeps the run from being started.
    """

    def __init__(self, text: str, field: str | None = None) -> None:
        """With the place that is wrong: `customer.addresses[2].city`; None when it is no JSON, or wrong as a whole."""
        super().__init__(text)
        self.field = field


class NotStartedError(Exception):
    """Why a handler was not called. Not for handlers to raise."""
