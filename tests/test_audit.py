"""`make audit` reports known problems of pinned releases, and never calls a release clean that it could not check."""

import json
import subprocess

import pytest
import requests
from packaging.version import Version

from tools import audit
from tools.audit import Pin, ask_pip_audit, ask_project, look_up, pins


def file(name, yanked=False):
    return {"filename": name, "yanked": yanked}


FILES = {
    "files": [
        file("some_thing-1.0.tar.gz"),
        file("some_thing-1.1-py3-none-any.whl", "it deletes files"),
        file("some_thing-1.1.tar.gz", True),
        file("some_thing-1.2-py3-none-any.whl"),
        file("some_thing-1.2.tar.gz", True),
        file("some_thing-2.0rc1.tar.gz"),
        file("some_thing-9.9.exe"),
    ]
}


def test_pins_are_read_and_other_lines_are_rejected():
    read = list(pins(["# made by hand", "", "Some_Thing==1.2  # why", "other[extra]==3 ; python_version > '3'"]))
    assert [str(pin) for pin in read] == ["some-thing 1.2", "other 3"]
    for line in ("other>=3", "other", "other==3,==4"):
        with pytest.raises(ValueError, match="not pinned to one release"):
            list(pins([line]))


@pytest.mark.parametrize(
    ("version", "faults"),
    [
        ("1.0", []),
        ("1.1", ["yanked: it deletes files"]),
        ("1.2", []),  # one of its files exists
        ("1.3", ["not in the index"]),
    ],
)
def test_a_withdrawn_or_deleted_release_is_reported(version, faults):
    pin = Pin("some-thing", Version(version))
    look_up(pin, FILES)
    assert [fault.replace("no reason given", "it deletes files") for fault in pin.faults] == faults
    assert pin.newest == Version("1.2")
    assert pin.advisories is None


def test_a_quarantined_project_is_reported():
    pin = Pin("some-thing", Version("1.0"))
    look_up(pin, {**FILES, "project-status": {"status": "quarantined", "reason": "malware"}})
    assert pin.faults == ["its project is quarantined: malware"]


def advisory(name, *aliases, withdrawn=None):
    return {"id": name, "aliases": list(aliases), "withdrawn": withdrawn}


def test_vulnerabilities_on_the_project_page_apply_only_to_the_newest_release():
    known = [advisory("PYSEC-1", "CVE-1"), advisory("CVE-1", "PYSEC-1"), advisory("PYSEC-2", withdrawn="2026-01-01")]
    page = {"info": {"version": "1.2"}, "vulnerabilities": known}
    old, new = Pin("some-thing", Version("1.0")), Pin("some-thing", Version("1.2"))
    ask_project(old, page)
    ask_project(new, page)
    assert old.advisories is None
    assert new.advisories == ["PYSEC-1"]


def test_releases_skipped_by_pip_audit_do_not_count_as_safe(monkeypatch, tmp_path):
    releases = [
        {"name": "some-thing", "version": "1.0", "vulns": [advisory("PYSEC-1")]},
        {"name": "other", "version": "3", "vulns": []},
        {"name": "third", "skip_reason": "not found"},
    ]
    answer = subprocess.CompletedProcess([], 1, stdout=json.dumps({"dependencies": releases}), stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    pinned = {(pin.name, pin.version): pin for pin in pins(["some-thing==1.0", "other==3", "third==1"])}
    ask_pip_audit(pinned, tmp_path)
    assert [pin.advisories for pin in pinned.values()] == [["PYSEC-1"], [], None]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run the audit with a local index and without pip-audit; return exit code and lines."""

    def run(lines, advisories=(), arguments=(), fails=False):
        def page(address, **_):
            if fails:
                raise requests.ConnectionError("no route")
            return FILES if "/simple/" in address else {"info": {"version": "1.2"}, "vulnerabilities": list(advisories)}

        monkeypatch.setattr(audit, "page", page)
        monkeypatch.setattr(audit, "ask_pip_audit", lambda *_: None)
        (tmp_path / "lock").write_text(lines)
        return audit.main([*arguments, str(tmp_path / "lock")]), capsys.readouterr().out

    return run


def test_exit_code_and_last_line_agree_with_the_findings(run):
    assert run("some-thing==1.2")[0] == 0
    assert "NOT CHECKED" not in run("some-thing==1.2")[1]
    code, printed = run("some-thing==1.0")
    assert code == 0
    assert (
        "NOT CHECKED for advisories, because the index has no page of them: 1 releases: some-thing 1.0 (newest: 1.2)."
        in printed
    )
    assert run("some-thing==1.0", arguments=["--strict"])[0] == 1
    code, printed = run("some-thing==1.2", [advisory("PYSEC-1")])
    assert code == 1
    assert "some-thing 1.2: advisory PYSEC-1" in printed
    assert run("some-thing==1.1")[0] == 1
    code, printed = run("some-thing==1.2", fails=True)
    assert code == 1
    assert "some-thing 1.2: could not be looked up: no route" in printed
