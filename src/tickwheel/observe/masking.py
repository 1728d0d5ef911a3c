"""Secrets are not for logs, nor for a screen: what has a secret's name is shown as three stars.

>>> mask = Mask()
>>> mask({"user": "ada", "api_key": "k-123", "headers": [{"X-Auth-Token": "t-9"}], "keyboard": "us"})
{'user': 'ada', 'api_key': '***', 'headers': [{'X-Auth-Token': '***'}], 'keyboard': 'us'}
>>> Mask(("iban",))({"customerIban": "DE02", "password": "not asked for"})
{'customerIban': '***', 'password': 'not asked for'}

A name is taken apart into its words, `apiKey` as well as `api_key`. It is a secret's if one of them ends with a secret
word, in singular or plural; an "apikey" is masked like this, and so is a "monkey": too much is better than too little.
Only names are looked at. A secret in a text, or under a name that says nothing, is shown.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

__all__ = ["MASKED", "SECRET_WORDS", "Mask"]

MASKED: Final = "***"
SECRET_WORDS: Final = (
    "auth",
    "authorization",
    "cookie",
    "credential",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "signature",
    "token",
)
DEPTH_MAX: Final = 32  # of what is looked into; what lies deeper is masked whole
NAMES_MAX: Final = 4096  # that are remembered; more than the arguments of a program have
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")


class Mask:
    """Shows values without their secrets. Nothing is changed in place."""

    def __init__(self, words: Iterable[str] = SECRET_WORDS) -> None:
        endings = tuple(ending for word in words for ending in (word.lower(), f"{word.lower()}s"))

        @lru_cache(maxsize=NAMES_MAX)
        def hides(name: str) -> bool:
            return any(word.lower().endswith(endings) for word in WORD.findall(name))

        self._hides = hides

    def hides(self, name: object) -> bool:
        """Tell whether a name is a secret's."""
        return isinstance(name, str) and self._hides(name)

    def __call__(self, value: Any) -> Any:
        """Return a value as it may be shown."""
        return self._shown(value, DEPTH_MAX)

    def _shown(self, value: Any, depth: int) -> Any:
        if not isinstance(value, (Mapping, list, tuple)):
            return value
        if depth == 0:
            return MASKED
        if isinstance(value, Mapping):
            return {
                name: MASKED if self.hides(name) else self._shown(inner, depth - 1) for name, inner in value.items()
            }
        return [self._shown(inner, depth - 1) for inner in value]
