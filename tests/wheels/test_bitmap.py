"""The bitmap finds every slot from every start, on both sides of a word's end."""

import importlib
from typing import Any

import pytest

from tests.builds import Build


def bitmap_of(build: Build, length: int) -> Any:
    module = build.modules.get("tickwheel.wheels.bitmap") or importlib.import_module("tickwheel.wheels.bitmap")
    return module.Bitmap(length)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
def test_one_bit_is_found_from_every_start(build: Build, length: int) -> None:
    for index in range(length):
        bitmap = bitmap_of(build, length)
        bitmap.set(index)
        assert [bitmap.next(start) for start in range(length + 1)] == [index] * (index + 1) + [-1] * (length - index)
        assert [bitmap.has(other) for other in range(length)] == [other == index for other in range(length)]
        bitmap.clear(index)
        assert bitmap.next(0) == -1


def test_the_lowest_of_many_bits_is_found(build: Build) -> None:
    bitmap = bitmap_of(build, 200)
    marked = [0, 31, 32, 33, 62, 63, 64, 127, 128, 199]
    for index in marked:
        bitmap.set(index)
        bitmap.set(index)
    found = [bitmap.next(0)]
    while (index := bitmap.next(found[-1] + 1)) >= 0:
        found.append(index)
    assert found == marked
