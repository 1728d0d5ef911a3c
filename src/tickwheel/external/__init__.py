"""Other schedulers beside tickwheel's: they look after what is far away, and call when it comes near.

`HybridScheduler` stands on any that keeps the contract of `FarScheduler`; `tickwheel.external.apscheduler` is one.
"""

from tickwheel.external.contract import FarScheduler
from tickwheel.external.hybrid import HybridScheduler

__all__ = ["FarScheduler", "HybridScheduler"]
