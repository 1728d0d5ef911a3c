"""The table of allowed imports as a contract of import-linter: what each package of tickwheel may import.

The table is in pyproject.toml, one line per package: `package: what it may import`. A single module below the root
counts as a package. An entry whose package does not exist is allowed; a package without an entry is an error. The root
may import any package, and no package may import the root.
"""

from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "tickwheel"


class ImportsContract(Contract):
    """Every import from one package into another must be allowed by the table."""

    type_name = "imports"
    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - set by the base class
        """Compare every direct import with the table."""
        table = read_table(cast("list[str]", self.packages))
        unlisted = sorted({package_of(module) for module in graph.modules} - set(table) - {ROOT})
        wrong: list[str] = [f"{package} is not in the table of imports" for package in unlisted]
        for importer in sorted(graph.modules):
            package = package_of(importer)
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                other = package_of(imported)
                if ROOT not in (importer, imported) and other != package and other not in table.get(package, set()):
                    wrong.append(f"{importer} imports {imported}, but {package} may not import {other}")
                elif imported == ROOT:
                    wrong.append(f"{importer} imports the root of tickwheel; import the package it needs")
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that is not allowed."""
        for line in cast("list[str]", check.metadata["wrong"]):
            output.print_error(line, bold=False)


def read_table(lines: list[str]) -> dict[str, set[str]]:
    """Read `package: what it may import` lines."""
    return {package.strip(): set(allowed.split()) for package, _, allowed in (line.partition(":") for line in lines)}


def package_of(module: str) -> str:
    """Return the package that a module is in: the first name below the root."""
    return module.split(".")[1] if "." in module else module
