"""Tasks are found, sorted, paged through and changed in bulk."""

import re

from playwright.sync_api import expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import Service


def test_filters_are_kept_in_the_address(open_at: Open, service: Service) -> None:
    for number in range(3):
        service.add(id=f"filter-{number}", tags=["filtered"], args={"n": number})
    service.add(id="not-to-be-seen", tags=["other"])
    page = open_at("tasks")
    expect(page.get_by_role("link", name="not-to-be-seen")).to_be_visible()
    page.get_by_text("More filters").click()
    page.get_by_label("Tag", exact=True).fill("filtered")
    expect(page.locator(".count").filter(has_text="3 tasks match")).to_be_visible()
    expect(page.get_by_role("link", name="not-to-be-seen")).not_to_be_attached()
    assert "tag=filtered" in page.url
    page.get_by_label("Status").select_option("failed")
    expect(page.get_by_text("No task matches these filters.")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Tag", exact=True)).to_have_value("filtered")
    expect(page.get_by_text("No task matches these filters.")).to_be_visible()
    page.get_by_role("button", name="Clear filters").first.click()
    expect(page.get_by_role("link", name="not-to-be-seen")).to_be_visible()


def test_search_finds_as_one_types(open_at: Open, service: Service) -> None:
    service.add(id="needle-1")
    page = open_at("tasks")
    page.get_by_label("Search").press_sequentially("needle")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("text=needle$"))  # the letters found so far may do before the last is typed


def test_pages_and_order(open_at: Open, service: Service) -> None:
    tasks = [
        {"handler": "orders.cancel", "delay": f"{1 + number}h", "id": f"page-{number:02}", "tags": ["paged"]}
        for number in range(30)
    ]
    service.post("/v1/tasks:batch", {"tasks": tasks})
    page = open_at("tasks?tag=paged&limit=25&order=due")
    rows = page.locator("a[data-row]")
    expect(rows).to_have_count(25)
    expect(rows.first).to_have_text("page-00")
    expect(page.get_by_role("columnheader", name="Due")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Next").click()
    expect(rows).to_have_text([f"page-{number}" for number in range(25, 30)])
    page.get_by_role("button", name="Previous").click()
    expect(rows.first).to_have_text("page-00")
    page.get_by_role("columnheader", name="Added").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="Added")).to_have_attribute("aria-sort", "descending")
    assert "order=newest" in page.url


def test_bulk_cancel_counts_before_it_acts(open_at: Open, service: Service) -> None:
    ids = [service.add(id=f"bulk-{number}", tags=["bulk"]) for number in range(4)]
    kept = service.add(id="bulk-not-this", tags=["kept"])
    page = open_at("tasks")
    begin = page.get_by_role("button", name="All that match")
    expect(begin).to_be_disabled()
    page.goto(f"{service.url}#/tasks?tag=bulk")
    begin.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Cancel: 4 tasks?")
    dialog.get_by_role("button", name="Never mind").click()
    assert {service.get(f"/v1/tasks/{name}")["status"] for name in ids} == {"pending"}
    begin.click()
    dialog.get_by_role("button", name="Cancel 4 tasks").click()
    expect(page.get_by_text("4 done.")).to_be_visible()
    expect(page.locator("tbody .status")).to_have_text(["cancelled"] * 4)
    assert {service.get(f"/v1/tasks/{name}")["status"] for name in ids} == {"cancelled"}
    assert service.get(f"/v1/tasks/{kept}")["status"] == "pending"
    page.get_by_role("button", name="Bulk actions so far").click()
    expect(dialog.get_by_role("row").nth(1)).to_contain_text("Tag: bulk")


def test_list_follows_what_happens(open_at: Open, service: Service) -> None:
    page = open_at("tasks?id_prefix=live-")
    expect(page.get_by_text("No task matches")).to_be_visible()
    service.add(id="live-1", delay="2s")
    row = page.get_by_role("row").filter(has_text="live-1")
    expect(row).to_contain_text("pending")
    expect(row).to_contain_text("completed")
