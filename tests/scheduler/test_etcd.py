"""The engine on an etcd cluster."""

import pytest

from tests.etcd import Prefix
from tests.scheduler.on_a_store import OnAStore


class TestEtcd(OnAStore):
    @pytest.fixture
    def url(self, prefix: Prefix) -> str:
        return prefix.url()
