"""Which slots of a dial hold timers: one bit a slot, so that empty stretches are jumped.

Looking for the next occupied slot takes in 64 slots at a glance:

    slot   0 1 2 3 4 5 6 7 8 9 ...
    bit    0 1 0 0 0 0 1 0 0 1 ...         next(4): drop the bits below 4, the lowest left is 6

    >>> bitmap = Bitmap(100)
    >>> bitmap.set(6), bitmap.set(99)
    (None, None)
    >>> bitmap.next(4), bitmap.next(7), bitmap.next(100)
    (6, 99, -1)
"""

from mypy_extensions import i64

__all__ = ["Bitmap"]


class Word:
    """Sixty-four bits as a native integer; a list of integers would box each of them."""

    __slots__ = ("bits",)

    def __init__(self) -> None:
        self.bits: i64 = 0


class Bitmap:
    """A row of bits of fixed length, all clear at first."""

    __slots__ = ("words",)

    def __init__(self, length: i64) -> None:
        self.words = [Word() for _ in range((length + 63) >> 6)]

    def set(self, index: i64) -> None:
        """Mark a slot as occupied."""
        self.words[index >> 6].bits |= bit(index)

    def clear(self, index: i64) -> None:
        """Mark a slot as empty."""
        self.words[index >> 6].bits &= ~bit(index)

    def has(self, index: i64) -> bool:
        """Tell whether a slot is marked."""
        return self.words[index >> 6].bits & bit(index) != 0

    def next(self, start: i64) -> i64:
        """Find the first marked slot at `start` or behind it; -1 if there is none."""
        at = start >> 6
        length: i64 = len(self.words)
        if at >= length:
            return -1
        skip = start & 63
        bits = self.words[at].bits >> skip << skip
        while bits == 0:
            at += 1
            if at == length:
                return -1
            bits = self.words[at].bits
        lowest: int = bits & -bits
        return (at << 6) + lowest.bit_length() - 1


def bit(index: i64) -> i64:
    """Return the bit of a slot in its word."""
    # Shifted in place: `1 << n` is compiled to a shift of a C int, which has 32 bits.
    single: i64 = 1
    single <<= index & 63
    return single
