"""One task: added by the form, seen to run, looked into, and changed."""

import re

from playwright.sync_api import expect

from tests.dashboard.conftest import Open
from tests.dashboard.service import Service


def test_task_added_by_the_form_is_seen_to_run(open_at: Open, service: Service) -> None:
    page = open_at("new")
    page.get_by_label("Handler", exact=True).last.fill("orders.cancel")
    page.get_by_label("Arguments").fill('{"order_id": 7}')
    page.get_by_label("Delay", exact=True).fill("2500ms")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Id", exact=True).fill("order-7")
    page.get_by_label("Tags").fill("vip, eu")
    page.get_by_role("button", name="Add task").click()
    expect(page.get_by_role("heading", name="order-7")).to_be_visible()
    expect(page.locator(".bar .status")).to_have_text("pending")
    expect(page.locator(".bar .status")).to_have_text("completed")
    expect(page.locator("#said")).to_contain_text("completed")
    expect(page.get_by_text('"order_id": 7')).to_be_visible()
    expect(page.locator(".timeline")).to_contain_text("run 1")
    assert service.get("/v1/tasks/order-7")["tags"] == ["vip", "eu"]


def test_form_says_what_is_wrong_where_it_is_wrong(open_at: Open) -> None:
    page = open_at("new")
    page.get_by_label("Handler", exact=True).last.fill("orders.cancel")
    page.get_by_label("Arguments").fill("{order_id: 7}")
    page.get_by_role("button", name="Add task").click()
    expect(page.get_by_label("Arguments")).to_be_focused()
    expect(page.get_by_label("Arguments")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("This is not JSON")).to_be_visible()


def test_cron_is_explained_while_it_is_written(open_at: Open) -> None:
    page = open_at("new", forgiven="status of 422")  # to half an expression, if typing it takes long
    page.get_by_label("Cron", exact=True).check()
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_label("Cron expression").press_sequentially("0 9 * * *")
    preview = page.get_by_role("status", name="Next runs of this expression")
    expect(preview.get_by_role("listitem")).to_have_count(5)
    expect(preview.get_by_role("listitem").first).to_contain_text("09:00")


def test_failure_shows_its_trace(open_at: Open, service: Service) -> None:
    name = service.add("orders.refuse", id="fails", delay="10ms", retries=0)
    service.await_status(name, "failed")
    page = open_at(f"task/{name}")
    trace = page.get_by_role("group", name="Error").first
    expect(trace).to_contain_text("Traceback")
    expect(trace).to_contain_text("the payment service does not answer")
    expect(page.get_by_role("table", name="Runs").get_by_role("row").nth(1)).to_contain_text("failed")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("table", name="Runs").get_by_role("row")).to_have_count(3)


def test_task_is_paused_resumed_rescheduled_run_and_cancelled(open_at: Open, service: Service) -> None:
    name = service.add("orders.count", id="acted-upon", delay="1h")
    page = open_at(f"task/{name}", forgiven="status of 404")  # it may hear that the task is gone before it leaves
    status = page.locator(".bar .status")

    def act(verb: str) -> None:
        page.get_by_role("group", name="Actions").get_by_role("button", name=verb).click()

    act("Pause")
    expect(status).to_have_text("paused")
    act("Resume")
    expect(status).to_have_text("pending")
    act("Reschedule")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Reschedule").click()
    expect(dialog.get_by_role("alert")).to_contain_text("one of the two")
    dialog.get_by_label("Delay").fill("3d")
    dialog.get_by_role("button", name="Reschedule").click()
    expect(page.locator(".next")).to_contain_text(re.compile("in (3 d|2 d 23 h)"))
    act("Run now")
    expect(status).to_have_text("running")
    act("Cancel")
    dialog.get_by_label("Reason").fill("not wanted any more")
    dialog.get_by_role("button", name="Cancel").click()
    expect(status).to_have_text("cancelled")
    expect(page.get_by_role("main")).to_contain_text("not wanted any more")
    act("Delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
    assert service.client.get(f"/v1/tasks/{name}").status_code == 404


def test_series_is_resumed_with_what_it_missed_and_one_run_of_it_is_stopped(open_at: Open, service: Service) -> None:
    name = service.add("orders.count", id="series", every="1h", overlap="queue_one", max_crashes=5)
    page = open_at(f"task/{name}")
    facts, dialog = page.locator(".facts"), page.get_by_role("dialog")
    expect(facts).to_contain_text("run one afterwards")
    expect(facts).to_contain_text("0; it fails at 5")

    def act(verb: str) -> None:
        page.get_by_role("group", name="Actions").get_by_role("button", name=verb).click()

    act("Pause")
    act("Resume")
    dialog.get_by_label("missed while paused").check()
    dialog.get_by_role("button", name="Resume").click()
    expect(page.locator(".bar .status")).to_have_text("pending")
    act("Run now")
    expect(page.locator(".bar .status")).to_have_text("running")
    act("Cancel")
    dialog.get_by_label("only this run").check()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator(".bar .status")).to_have_text("pending")
    expect(facts).to_contain_text("Last runcancelled")
    assert service.get(f"/v1/tasks/{name}")["last_run"]["status"] == "cancelled"


def test_refusal_is_told_in_the_servers_words(open_at: Open, service: Service) -> None:
    page = open_at("new", forgiven="status of 4")  # the browser itself tells of every refusal
    page.get_by_label("Handler", exact=True).last.fill("orders.cancel")
    page.get_by_label("Delay", exact=True).fill("soon")
    page.get_by_role("button", name="Add task").click()
    detail = service.client.post("/v1/tasks", json={"handler": "orders.cancel", "delay": "soon"}).json()["detail"]
    expect(page.get_by_role("alert").filter(has_text=detail)).to_be_visible()
