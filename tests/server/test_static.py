"""The dashboard's files: found, kept by browsers, compressed, and nothing else is."""

import httpx
import pytest

from tests.server.served import Served


def test_the_page_is_there_with_its_rules(server: Served) -> None:
    answer = server.client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = answer.headers["content-security-policy"]
    assert "default-src 'self'" in rules
    assert "unsafe-inline" not in rules
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = server.client.get("/", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert server.client.get("/dashboard/index.html").content == answer.content


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/../app.py",
        "/dashboard/..%2fapp.py",
        "/dashboard/%2e%2e/app.py",
        "/dashboard/%2e%2e%2fapp.py",
        "/dashboard//etc/passwd",
        "/dashboard/%2fetc%2fpasswd",
        "/dashboard/..\\app.py",
        "/dashboard/index.html%00.js",
        "/dashboard/",
        "/dashboard/nothing.js",
    ],
)
def test_no_path_leads_elsewhere(server: Served, path: str) -> None:
    url = httpx.URL(server.url).copy_with(raw_path=path.encode())
    answer = server.client.get(url)
    assert answer.status_code == 404, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
