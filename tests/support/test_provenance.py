"""Where a figure comes from."""

import subprocess

from beno.support import provenance


def test_what_the_commit_does_not_have_is_told(tmp_path, monkeypatch):
    """Changed and new files that a figure may depend on, and no others."""

    def git(*words):
        name = ("-c", "user.name=one", "-c", "user.email=one@example.org")
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    for folder in ("src", "benchmarks", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "old.py").write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "src" / "old.py"))
    monkeypatch.delenv("BENO_COMMIT", raising=False)
    assert provenance.provenance()["changed_since_commit"] == []
    (tmp_path / "src" / "old.py").write_text("2")
    for folder in ("src", "benchmarks", "docs"):
        (tmp_path / folder / "new.py").write_text("1")
    changed = provenance.provenance()["changed_since_commit"]
    assert sorted(changed) == ["benchmarks/new.py", "src/new.py", "src/old.py"]
    monkeypatch.setenv("BENO_COMMIT", "told")
    assert provenance.provenance()["commit"] == "told" and provenance.provenance()["changed_since_commit"] == []
