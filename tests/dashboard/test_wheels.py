"""The wheels turn, show what waits, and tell the same in words."""

import time
from typing import Any

from playwright.sync_api import expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import Service

PIXELS = "() => document.querySelector('canvas').toDataURL()"


def test_hands_move(open_at: Open, service: Service) -> None:
    service.add(delay="2h")
    page = open_at("toString")  # what is no place is the first one
    page.locator("summary").filter(has_text="The wheels as a table").click()
    hand = page.locator("[data-hand='1']")
    expect(hand).to_be_visible()
    before, pixels = hand.text_content(), page.evaluate(PIXELS)
    expect(hand).not_to_have_text(before or "")
    assert page.evaluate(PIXELS) != pixels


def test_a_wheel_with_nothing_to_do_turns_on(open_at: Open) -> None:
    page = open_at("wheels")
    expect(page.locator("[data-hand='0']")).to_be_attached()
    pixels = page.evaluate(PIXELS)
    page.wait_for_function("(before) => document.querySelector('canvas').toDataURL() !== before", arg=pixels)


def find_slot(service: Service, name: str) -> tuple[list[dict[str, Any]], int, int]:
    """Return the levels, and where a task is; it may fall to another slot while one after the other is looked at."""
    for _ in range(20):
        levels: list[dict[str, Any]] = service.get("/v1/wheels")["levels"]
        for level in levels:
            for slot, count in enumerate(level["occupancy"]):
                number = level["level"]
                if count and name in [task["id"] for task in service.get(f"/v1/wheels/{number}/{slot}")["tasks"]]:
                    return levels, number, slot
        time.sleep(0.5)
    raise AssertionError(f"{name} is in no slot of {levels}")


def test_slot_shows_what_waits_there(open_at: Open, service: Service) -> None:
    name = service.add(id="waits-in-a-slot", delay="8m")
    page = open_at("wheels")
    page.locator("summary").filter(has_text="The wheels as a table").click()
    face = page.get_by_role("application")
    levels, level, slot = find_slot(service, name)
    expect(page.locator(f"[data-hand='{level}']")).to_be_visible()
    place = page.evaluate(
        """([level, slot, levels, slots]) => {
            const box = document.querySelector("canvas").getBoundingClientRect();
            const reach = (0.085 + (0.86 - 0.085) / levels * (level + 0.6)) * box.width / 2;
            const angle = (slot + 0.5) / slots * 2 * Math.PI - Math.PI / 2;
            return [box.width / 2 + Math.cos(angle) * reach, box.height / 2 + Math.sin(angle) * reach];
        }""",
        [level, slot, len(levels), levels[level]["slots"]],
    )
    face.hover(position={"x": place[0], "y": place[1]})
    expect(page.locator(".hint")).to_contain_text(f"Level {level}, slot {slot}")
    face.click(position={"x": place[0], "y": place[1]})
    panel = page.get_by_role("region", name="Slot")
    panel.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def test_slots_are_chosen_by_arrow_keys(open_at: Open, service: Service) -> None:
    page = open_at("wheels")
    expect(page.locator("[data-hand='0']")).to_be_attached()
    page.get_by_role("application").focus()
    top = len(service.get("/v1/wheels")["levels"]) - 1
    for key, words in (
        ("ArrowRight", f"Level {top}, slot 0"),
        ("ArrowRight", f"Level {top}, slot 1"),
        ("ArrowRight", f"Level {top}, slot 2"),
        ("ArrowDown", f"Level {top - 1}, slot 1"),  # the hour below the third of thirty days
    ):
        page.keyboard.press(key)
        expect(page.get_by_role("region", name="Slot").get_by_role("heading")).to_contain_text(words)
        expect(page.locator("#said")).to_contain_text(words)


def test_what_happens_is_shown_as_it_happens(open_at: Open, service: Service) -> None:
    page = open_at("wheels")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    service.add(id="fires-at-once", delay="10ms")
    row = page.get_by_role("listitem").filter(has_text="fires-at-once").filter(has_text="completed")
    expect(row).to_be_visible()
    expect(page.locator("#said")).to_contain_text("1 run completed")


def test_hands_follow_from_the_time_and_what_they_reach_falls(open_at: Open) -> None:
    page = open_at("wheels")
    expect(page.locator("[data-hand='0']")).to_be_attached()
    seen = page.evaluate(
        """async () => {
            const { Motion } = await import("/dashboard/wheels/motion.js");
            const motion = new Motion();
            Math.random = () => 0.5;
            const occupancy = (slot, count) => Array.from({ length: 4 }, (_, place) => (place === slot ? count : 0));
            const look = (seconds) => motion.look([
                { slots: 4, slot_seconds: 1, hand: Math.floor(seconds) % 4, occupancy: occupancy(3, 1) },
                { slots: 4, slot_seconds: 4, hand: Math.floor(seconds / 4) % 4, occupancy: occupancy(2, 10) },
            ], 100);
            const state = () => [motion.hand(0), motion.hand(1), ...motion.levels.map(
                (level) => level.occupancy.reduce((sum, count) => sum + count)), motion.drops.length > 0];
            const states = [];
            look(6);
            for (const at of [100, 100.5, 101, 102]) { motion.move(at, true); states.push(state()); }
            return [...states, motion.fired];
        }"""
    )
    assert seen == [
        [2, 1.5, 1, 10, False],  # six seconds: the second slot of four, half way through
        [2.5, 1.625, 1, 10, False],
        [3, 1.75, 0, 10, True],  # the fast hand reaches slot 3: it fires
        [0, 2, 10, 0, True],  # the slow hand reaches slot 2: its ten fall to the fast dial, by chance to slot 2
        101,
    ]
