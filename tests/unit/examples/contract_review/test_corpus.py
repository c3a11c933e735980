"""Licence texts as documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from piecework import PermanentError
from piecework_examples.contract_review import corpus


def test_the_texts_of_a_folder_are_listed_without_their_front_matter(
    tmp_path: Path,
) -> None:
    text = "You may copy. " * 200
    (tmp_path / "mit.LICENSE").write_text(f"---\nkey: mit\n---\n\n{text}")
    (tmp_path / "tiny.LICENSE").write_text("Public domain.")
    (tmp_path / "notes.yml").write_text(text)
    (document,) = corpus.licences([tmp_path / "absent", tmp_path])
    assert ("mit.txt", text.strip()) == (document.name, document.text)


def test_a_machine_without_texts_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(PermanentError) as caught:
        list(corpus.licences([tmp_path]))
    assert "input.corpus.missing" == caught.value.code
    assert "licensedcode-data" in caught.value.next_step


def test_the_command_fills_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / f"{name}.LICENSE").write_text("You may copy. " * 200)
    monkeypatch.setattr(corpus, "known_places", lambda: [source])
    assert 0 == corpus.main([str(target), "--limit", "2"])
    assert ["a.txt", "b.txt"] == sorted(path.name for path in target.iterdir())
    monkeypatch.setattr(corpus, "known_places", list)
    assert 2 == corpus.main([str(target)])
    assert "input.corpus.missing" in capsys.readouterr().err
