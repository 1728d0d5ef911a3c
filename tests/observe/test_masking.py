"""What has a secret's name is not shown."""

from typing import Any

import pytest

from tickwheel.observe.masking import DEPTH_MAX, MASKED, Mask


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "db_password",
        "passwordHash",
        "passwd",
        "secret",
        "clientSecret",
        "token",
        "tokens",
        "access-token",
        "X-Auth-Token",
        "accesstoken",
        "key",
        "api_key",
        "apiKey",
        "APIKey",
        "apikey",
        "Authorization",
        "proxy.authorization",
        "Set-Cookie",
        "aws2secret",
        "credentials",
    ],
)
def test_a_secret_name_is_known(name: str) -> None:
    assert Mask()({name: "hidden"}) == {name: MASKED}


@pytest.mark.parametrize("name", ["user", "keyboard", "tokenizer", "author", "passenger", "", "密码", "order_id"])
def test_any_other_name_is_not(name: str) -> None:
    assert Mask()({name: "shown"}) == {name: "shown"}


def test_words_of_any_language_can_be_given() -> None:
    mask = Mask(("iban", "密码"))
    assert mask({"IBAN": 1, "用户_密码": 2, "password": 3}) == {"IBAN": MASKED, "用户_密码": MASKED, "password": 3}


def test_what_lies_inside_is_masked_and_nothing_is_changed() -> None:
    args: dict[str, Any] = {"to": [{"token": "t", "name": "Ada"}, ("x", {"pwd": 1})], "key": {"inner": "gone whole"}}
    shown = Mask()(args)
    assert shown == {"to": [{"token": MASKED, "name": "Ada"}, ["x", {"pwd": MASKED}]], "key": MASKED}
    assert args["to"][0]["token"] == "t"
    assert args["key"] == {"inner": "gone whole"}


def test_what_is_too_deep_to_be_looked_at_is_not_shown() -> None:
    deep: Any = {"password": "p"}
    for _ in range(DEPTH_MAX + 10):
        deep = {"in": deep}
    assert "'p'" not in repr(Mask()(deep))
    assert MASKED in repr(Mask()(deep))


def test_names_that_are_no_text_and_values_that_are_no_maps_are_left_alone() -> None:
    mask = Mask()
    assert mask({1: "one", None: 2}) == {1: "one", None: 2}
    assert mask("password") == "password"
    assert mask(None) is None
