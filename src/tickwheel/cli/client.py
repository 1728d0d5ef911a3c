"""A server, as the commands talk to it: JSON in, JSON out, and its refusals as errors in words.

server = Server("http://127.0.0.1:8600", token=None)
server.get("/v1/tasks", status="failed")["tasks"]
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tickwheel.errors import MissingExtra, ServerAway, ServerRefused

try:
    import httpx
except ImportError as error:
    raise MissingExtra("commands for a server", "httpx", "server") from error

__all__ = ["Server"]

TIMEOUT_S: Final = 30.0
DETAIL_CHARS_MAX: Final = 500  # of an answer that is no problem as we describe them


class Server:
    """One server; close it when done."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT_S)

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """Ask for something."""
        return self._ask("GET", path, params={name: value for name, value in parameters.items() if value is not None})

    def post(self, path: str, body: Any = None) -> Any:
        """Have something done."""
        return self._ask("POST", path, json=body)

    def patch(self, path: str, body: Any) -> Any:
        """Have something changed."""
        return self._ask("PATCH", path, json=body)

    def events(self) -> Iterator[dict[str, Any]]:
        """Hear what happens, from now on."""
        try:
            with self._http.stream("GET", "/v1/events", timeout=httpx.Timeout(TIMEOUT_S, read=None)) as answer:
                if not answer.is_success:
                    answer.read()
                    raise refusal(answer)
                for line in answer.iter_lines():
                    if line.startswith("data:"):
                        yield msgspec.json.decode(line.removeprefix("data:"))
        except httpx.HTTPError as error:
            raise ServerAway(self.url, str(error)) from error

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise ServerAway(self.url, str(error)) from error
        if not answer.is_success:
            raise refusal(answer)
        return msgspec.json.decode(answer.content) if answer.content else None


def refusal(answer: httpx.Response) -> ServerRefused:
    """Read why a server refuses."""
    try:
        problem = msgspec.json.decode(answer.content)
        words = "; ".join([problem["detail"], *(f"{each['pointer']}: {each['detail']}" for each in problem["errors"])])
    except (msgspec.DecodeError, KeyError, TypeError):
        words = answer.text[:DETAIL_CHARS_MAX]
    return ServerRefused(answer.status_code, words)
