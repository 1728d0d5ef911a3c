"""The dashboard's files, from memory: an address is a key of a table, and leads nowhere else.

Each has an ETag, so that a browser asks and is told 304, and is compressed once, when the server starts.
"""

import gzip
import hashlib
import mimetypes
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from litestar import Request, Response, get

from tickwheel.server.problems import Problem

__all__ = ["Dashboard", "handlers"]

FOLDER: Final = files("tickwheel.server") / "dashboard"
SMALL_BYTES: Final = 1_024  # what is not worth compressing
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-cache",  # it may be kept, and is asked for whether it is still good
    "vary": "accept-encoding",
}
# Not the machine's own table: it may know other types, or none.
TYPES: Final = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


class File(msgspec.Struct, frozen=True):
    """A file as it is sent."""

    plain: bytes
    zipped: bytes | None
    etag: str
    media_type: str


class Dashboard:
    """All files, by their path below the folder."""

    def __init__(self, folder: Traversable = FOLDER) -> None:
        self._files = dict(read(folder))

    def answer(self, request: Request[Any, Any, Any], path: str) -> Response[bytes]:
        """Answer with a file."""
        file = self._files.get(path)
        if file is None:
            raise Problem(404, "not-found", "There is nothing at this address", f"there is no file {path!r}")
        headers = {**HEADERS, "etag": file.etag}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(b"", status_code=304, headers=headers, media_type=file.media_type)
        if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(file.zipped, headers=headers, media_type=file.media_type)
        return Response(file.plain, headers=headers, media_type=file.media_type)


def read(folder: Traversable, prefix: str = "") -> list[tuple[str, File]]:
    """Read a folder and those in it."""
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += read(entry, f"{prefix}{entry.name}/")
        elif not entry.name.startswith("."):
            plain = entry.read_bytes()
            suffix = entry.name[entry.name.rfind(".") :]
            media_type = TYPES.get(suffix) or mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
            zipped = gzip.compress(plain, mtime=0) if len(plain) >= SMALL_BYTES else None
            etag = f'"{hashlib.sha256(plain).hexdigest()[:32]}"'
            found.append((f"{prefix}{entry.name}", File(plain, zipped, etag, media_type)))
    return found


@get("/", opt={"role": None})
async def index(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Answer with the page."""
    return request.app.state.service.dashboard.answer(request, "index.html")  # type: ignore[no-any-return]


@get("/dashboard/{path:path}", opt={"role": None})
async def file(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Answer with a file of the page."""
    path = str(request.path_params["path"]).removeprefix("/")
    return request.app.state.service.dashboard.answer(request, path)  # type: ignore[no-any-return]


handlers = [index, file]
