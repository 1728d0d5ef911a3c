"""What an engine found when it took over."""

import msgspec

__all__ = ["Recovery"]


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """How things stood: what was missed while nobody ran the tasks."""

    partitions: int  # that were taken over
    down_ms: int  # since the last owner was known to be at work; 0 if there was none
    overdue: int  # tasks whose time had passed
    orphaned: int  # tasks that were running when their owner died

    def __str__(self) -> str:
        return (
            f"{self.partitions} partitions taken over after {self.down_ms / 1000:g} s; "
            f"{self.overdue} tasks overdue, {self.orphaned} orphaned"
        )
