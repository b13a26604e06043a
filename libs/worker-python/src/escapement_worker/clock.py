"""The clock that deadlines are kept on: seconds that run on while the machine is suspended.

`time.monotonic` stands still during a suspend on Linux: a machine that slept for an hour would take its lease for
fresh. CLOCK_BOOTTIME counts that hour; where a system has none, its monotonic clock must do. A hypervisor that
pauses a guest without telling it stops every clock; there only the fencing token protects.
"""

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """This moment, in seconds; meaningless outside this process."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
