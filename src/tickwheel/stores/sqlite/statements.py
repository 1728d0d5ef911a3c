"""The SQL, from its files: statements by name, and the steps from one schema to the next by number."""

import re
from importlib.resources import files
from typing import Final

__all__ = ["MIGRATIONS", "SQL"]

FOLDER: Final = files("tickwheel.stores.sqlite") / "sql"


def named(text: str) -> dict[str, str]:
    """Divide a file into its statements; a remark before a name belongs to nothing."""
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    statements = dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: re.sub(r"^--.*\n?", "", sql, flags=re.MULTILINE).strip() for name, sql in statements.items()}


SQL: Final = named((FOLDER / "statements.sql").read_text(encoding="utf-8"))

# What brings the schema to version 1, 2, ...
MIGRATIONS: Final = [
    path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.iterdir(), key=lambda path: path.name)
    if re.fullmatch(r"\d{4}_\w+\.sql", path.name)
]
