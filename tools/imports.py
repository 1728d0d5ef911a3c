"""The room table as an import contract: what each folder of tickwheel may import.

The table is in pyproject.toml, a line a room, `room: what it may import`. A room that is in the table
but not yet built is fine; a room that is built but not in the table is not. The root of the package may
import any room, and no room may import the root.
"""

from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "tickwheel"


class RoomsContract(Contract):
    """Every import from one room into another must be allowed by the table."""

    type_name = "rooms"
    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - set by the base class
        """Compare every direct import with the table."""
        table = read_table(cast("list[str]", self.rooms))
        unlisted = sorted({room_of(module) for module in graph.modules} - set(table) - {ROOT})
        wrong: list[str] = [f"{room} is not in the room table" for room in unlisted]
        for importer in sorted(graph.modules):
            room = room_of(importer)
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                other = room_of(imported)
                if ROOT not in (importer, imported) and other != room and other not in table.get(room, set()):
                    wrong.append(f"{importer} imports {imported}, but {room} may not import {other}")
                elif imported == ROOT:
                    wrong.append(f"{importer} imports the root of the package; import the room it needs")
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that is not allowed."""
        for line in cast("list[str]", check.metadata["wrong"]):
            output.print_error(line, bold=False)


def read_table(lines: list[str]) -> dict[str, set[str]]:
    """Read `room: what it may import` lines."""
    return {room.strip(): set(allowed.split()) for room, _, allowed in (line.partition(":") for line in lines)}


def room_of(module: str) -> str:
    """Return the room a module is in: the first name below the root."""
    return module.split(".")[1] if "." in module else module
