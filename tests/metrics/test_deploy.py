"""Dashboard and alerts ask for metrics that `/metrics` has, by labels that these have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from azure.cosmos import ContainerProxy

from served import Http

DEPLOY = Path(__file__).parents[2] / "deploy"
ASKED = re.compile(r"\b(?:mayfly|process)_\w+")


def expressions() -> dict[str, str]:
    """Every expression, by the title of its panel or the name of its alert."""
    panels = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))["panels"]
    found = {panel["title"]: target["expr"] for panel in panels for target in panel["targets"]}
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    return found | {rule["alert"]: rule["expr"] for rule in rules}


def test_they_name_what_is_measured(http: Http, sessions: ContainerProxy) -> None:
    text = http("GET", "/metrics").body.decode()
    declared = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, given in re.findall(r"^(\w+)(?:{(.*)})? \S+$", text, re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', given))
    asked = expressions()
    assert len(asked) == 17 + 11
    for title, expression in asked.items():
        assert expression.count("(") == expression.count(")"), title
        for name in ASKED.findall(expression):
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in declared or family in declared, f"{title}: {name}"
            for by in re.findall(r"by \(([^)]*)\)", expression):
                assert name not in labels or {each.strip() for each in by.split(",")} <= labels[name], title


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(DEPLOY / "alerts.yaml")], check=True)
