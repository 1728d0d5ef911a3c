"""Signatures, without anyone to send them."""

from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook as Independent

from tickwheel.clock import SystemClock
from tickwheel.errors import InvalidSecret, InvalidSignature
from tickwheel.webhooks import new_secret, sign, verify
from tickwheel.webhooks.signing import message_id

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_example_of_the_standard_is_signed_as_it_says() -> None:
    # https://github.com/standard-webhooks/standard-webhooks: the vector of its libraries' tests
    body = b'{"test": 2432232314}'
    headers = sign([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=5), st.text(min_size=1, max_size=50))
def test_what_is_signed_here_is_right_elsewhere(args: dict[str, object], name: str) -> None:
    body, now = msgspec.json.encode(args), SystemClock.time_ns() // 10**9
    headers = sign([SECRET], message_id(name), now, body)
    assert Independent(SECRET).verify(body, headers) == args
    assert verify(SECRET, headers, body, now=now) == headers["webhook-id"]
    assert headers["webhook-id"].isascii()
    assert "." not in headers["webhook-id"]
    assert unquote(headers["webhook-id"]) == name, "no two names become the same id"


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "whsec_AAAA", "whsec_" + "A" * 400, "é" * 40])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(InvalidSecret) as raised:
        sign([secret], "m", 0, b"")
    assert len(secret) < 8 or secret not in str(raised.value)


def test_there_are_one_or_two_secrets() -> None:
    with pytest.raises(InvalidSecret):
        sign([], "m", 0, b"")
    with pytest.raises(InvalidSecret):
        sign([new_secret() for _ in range(3)], "m", 0, b"")


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_message_without_its_headers_is_refused(missing: str) -> None:
    headers = sign([SECRET], "m", 1000, b"")
    del headers[missing]
    with pytest.raises(InvalidSignature, match=missing):
        verify(SECRET, headers, b"", now=1000)


@pytest.mark.parametrize(
    "signature", ["", "v1", "v1,", ",", "v2,{}", "{}", "v1a,{}", "v1,{} ".replace("{}", "é"), "v1," + "A" * 100_000]
)
def test_what_looks_like_a_signature_is_none(signature: str) -> None:
    headers = sign([SECRET], "m", 1000, b"")
    right = headers["webhook-signature"].removeprefix("v1,")
    with pytest.raises(InvalidSignature):
        verify(SECRET, {**headers, "webhook-signature": signature.replace("{}", right)}, b"", now=1000)


def test_one_right_signature_among_others_is_enough() -> None:
    headers = sign([SECRET], "m", 1000, b"")
    many = {"Webhook-Signature": f"v2,x v1,AAAA {headers.pop('webhook-signature')}", **headers}
    assert verify(SECRET, many, b"", now=1000) == "m"


@pytest.mark.parametrize("timestamp", ["-1000", "1e3", "", "\u0661\u0660", "9" * 30, "1000.0"])
def test_a_timestamp_that_is_no_number_is_refused_though_it_is_signed(timestamp: str) -> None:
    headers = sign([SECRET], "m", timestamp, b"")  # type: ignore[arg-type] # by someone who has the secret
    with pytest.raises(InvalidSignature, match="no number of seconds"):
        verify(SECRET, headers, b"", now=1000)


def test_a_message_from_the_future_is_refused() -> None:
    headers = sign([SECRET], "m", 2000, b"")
    with pytest.raises(InvalidSignature, match="ahead"):
        verify(SECRET, headers, b"", now=1000)
    assert verify(SECRET, headers, b"", now=1000, tolerance="1h") == "m"
