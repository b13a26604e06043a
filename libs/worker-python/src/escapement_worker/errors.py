"""What can be wrong before any work is done."""


class ConfigurationError(ValueError):
    """A worker's parts are missing or wrong; the text says which, and what to give instead."""


class PayloadError(ValueError):
    """A run's payload is not JSON; the text names the run and the place. Raised in the handler, it fails the run."""
