"""What is shipped to run three nodes on PostgreSQL: that it can be read, and that what it speaks of is there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.postgres import Database
from tests.server.served import Served
from tickwheel.server.config import Config
from tickwheel.server.openapi import ADDRESSES
from tickwheel.server.sources import read_config
from tickwheel.server.tokens import make_token

REPOSITORY = Path(__file__).parents[1]
DEPLOY = REPOSITORY / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes/tickwheel.yaml").read_text())}
POD = MANIFESTS["Deployment"]["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
NODES = [service for service in COMPOSE["services"].values() if service["image"] == "tickwheel"]
STORE = "postgresql://tickwheel:secret@postgres/tickwheel"


def environment() -> dict[str, str]:
    """Return what the manifest tells a node, with the secret in its place."""
    return {each["name"]: each.get("value", STORE) for each in CONTAINER["env"]}


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.mark.parametrize("told", [{**NODES[0]["environment"], "TICKWHEEL_STORE": STORE}, environment()])
def test_nodes_are_told_what_there_is_to_tell(told: dict[str, str]) -> None:
    known = {f"TICKWHEEL_{name.upper()}" for name in Config.__struct_fields__}
    assert set(told) <= known
    config = read_config({}, told)
    assert (config.store, config.host, config.port, config.deliver) == (STORE, "0.0.0.0", 8765, True)
    assert (config.log, config.grace_s) == ("json", 20)


def test_compose_has_three_nodes_alike_and_a_database() -> None:
    assert len(NODES) == 3
    ports = [service.pop("ports") for service in NODES]
    assert NODES[0] == NODES[1] == NODES[2]
    assert sorted(port for [port] in ports) == [f"127.0.0.1:{8765 + n}:8765" for n in range(3)]
    node, database = NODES[0], COMPOSE["services"]["postgres"]
    assert node["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert database["healthcheck"]["test"][1] == "pg_isready"
    assert node["environment"]["TICKWHEEL_TOKEN_FILE"] == f"/run/secrets/{node['secrets'][0]}"
    assert database["environment"]["POSTGRES_PASSWORD_FILE"] == f"/run/secrets/{database['secrets'][0]}"
    assert set(COMPOSE["secrets"]) == {*node["secrets"], *database["secrets"]}
    assert {volume.split(":")[0] for volume in database["volumes"]} == set(COMPOSE["volumes"])
    assert seconds(node["stop_grace_period"]) > int(node["environment"]["TICKWHEEL_GRACE_S"])
    assert (DEPLOY / node["build"]["context"] / node["build"]["dockerfile"]).is_file()
    assert re.search(r"http://127.0.0.1:8765(/\w+)'", node["healthcheck"]["test"][3])[1] == "/readyz"  # type: ignore[index]


def test_what_belongs_together_in_kubernetes_is_named_alike() -> None:
    assert set(MANIFESTS) == {"Deployment", "PodDisruptionBudget", "Service"}
    spec, labels = MANIFESTS["Deployment"]["spec"], POD["metadata"]["labels"]
    assert spec["replicas"] == 3
    assert spec["selector"]["matchLabels"] == labels
    budget, service = MANIFESTS["PodDisruptionBudget"]["spec"], MANIFESTS["Service"]["spec"]
    assert budget["selector"]["matchLabels"] == service["selector"] == labels
    assert budget["maxUnavailable"] < spec["replicas"]
    assert service["sessionAffinity"] == "ClientIP"
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert {port["targetPort"] for port in service["ports"]} <= set(ports)
    assert str(ports["http"]) == environment()["TICKWHEEL_PORT"]
    assert POD["spec"]["terminationGracePeriodSeconds"] > int(environment()["TICKWHEEL_GRACE_S"])


def test_secrets_are_there_by_reference_alone() -> None:
    [store] = [each["valueFrom"]["secretKeyRef"] for each in CONTAINER["env"] if "valueFrom" in each]
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in CONTAINER["volumeMounts"]}
    tokens = Path(environment()["TICKWHEEL_TOKEN_FILE"])
    secret = mounts[str(tokens.parent)]["secret"]
    assert store["name"] == secret["secretName"]
    assert [item["path"] for item in secret["items"]] == [tokens.name]
    said = (DEPLOY / "kubernetes/tickwheel.yaml").read_text()
    assert all(f"--from-{how}={key}" in said for how, key in (("literal", store["key"]), ("file", tokens.name)))
    assert "deploy/secrets/" in (REPOSITORY / ".gitignore").read_text().splitlines()


def test_the_image_is_made_of_what_there_is() -> None:
    said = (DEPLOY / "Dockerfile").read_text()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = re.search(r"/source\[([\w,]+)\]", said)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    assert set(re.findall(r"^EXPOSE (\d+)", said, re.MULTILINE)) == {str(Config().port)}
    assert re.search(r"^USER (\d+)", said, re.MULTILINE)[1] == str(POD["spec"]["securityContext"]["runAsUser"])  # type: ignore[index]
    assert "tickwheel" in project["scripts"]
    wanted = re.findall(r"^!(.+)$", (REPOSITORY / ".dockerignore").read_text(), re.MULTILINE)
    assert [name for name in wanted if not (REPOSITORY / name).exists()] == []
    assert {project["readme"], *project["license-files"], "src", "setup.py", "pyproject.toml"} == set(wanted)


def probes() -> dict[str, Any]:
    return {name: CONTAINER[name]["httpGet"] for name in ("livenessProbe", "readinessProbe", "startupProbe")}


def test_a_node_as_it_is_told_answers_its_probes(database: Database, tmp_path: Path) -> None:
    token, line = make_token("ann", "admin")
    (tmp_path / "tokens").write_text(line + "\n")
    told = {**environment(), "TICKWHEEL_STORE": database.url(), "TICKWHEEL_TOKEN_FILE": str(tmp_path / "tokens")}
    assert {probe["path"] for probe in probes().values()} <= {address.path for address in ADDRESSES}
    assert {probe["port"] for probe in probes().values()} == {"http"}
    with Served(tmp_path, app=None, **told) as served:
        for probe in probes().values():
            assert httpx.get(served.url + probe["path"], timeout=60).json()["status"] == "ok"
        assert httpx.get(f"{served.url}/v1/cluster", timeout=60).status_code == 401
        mine = httpx.get(f"{served.url}/v1/cluster", headers={"Authorization": f"Bearer {token}"}, timeout=60).json()
        assert len(mine["partitions"]) == 64, "it runs what is delivered"
