"""SQL from its files: statements by name, and the steps from one schema to the next by number.

    statements.sql      -- name: get            -> {"get": "SELECT ..."}
                        SELECT ...
    0001_begin.sql      what brings the schema to version 1, 0002_... to version 2, and so on

>>> named('''
... -- Every task has one.
... -- name: get
... SELECT body FROM tasks WHERE id = ?
... ''')
{'get': 'SELECT body FROM tasks WHERE id = ?'}
"""

import re
from importlib.resources import files

__all__ = ["named", "read_scripts"]


def named(text: str) -> dict[str, str]:
    """Divide a file into its statements; a remark before a name belongs to nothing."""
    _, *parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    statements = dict(zip(parts[::2], parts[1::2], strict=True))
    return {name: re.sub(r"^--.*\n?", "", sql, flags=re.MULTILINE).strip() for name, sql in statements.items()}


def read_scripts(package: str) -> tuple[dict[str, str], list[str]]:
    """Return the statements of a package by name, and its migrations in order."""
    folder = files(package) / "sql"
    migrations = [
        path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if re.fullmatch(r"\d{4}_\w+\.sql", path.name)
    ]
    return named((folder / "statements.sql").read_text(encoding="utf-8")), migrations
