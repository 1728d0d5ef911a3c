"""Its commands, one a module."""
