"""Pages say what the results say."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def results_pages():
    spec = importlib.util.spec_from_file_location("results_pages", ROOT / "docs" / "results_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_results():
    pages = results_pages()
    assert pages.PAGE.read_text() == pages.page(), "python docs/results_pages.py makes it again"


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "accuracy").glob("*.json")), ids=lambda path: path.stem)
def test_a_result_says_how_to_come_by_it(path):
    result = json.loads(path.read_text())
    assert path.stem in results_pages().TITLES
    assert result["commit"] and result["device"]["gpu"] and result["date"]
    config = result["config"]
    assert config["model"]["training"]["seed"] == config["seed"]
    seeds = {family["seed"] for family in config["tested_on"].values()}
    assert config["trained_on"]["seed"] not in seeds
    for figure in result["figures"].values():
        assert 0 < figure["relative_l2"] < 2 and figure["samples"] >= 10
