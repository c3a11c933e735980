from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from bench import page, results
from bench.emulator import server_command
from verification.bench import records

PIECEWORK = records.record("W1", "piecework")


def test_the_page_names_the_aws_server() -> None:
    on_models = replace(PIECEWORK, aws_server="models")
    growth = replace(
        PIECEWORK, workload="W4", variant="100 chunks", aws_server="ministack"
    )

    alone = page.describe_aws_server(records.results(on_models, on_models))
    both = page.describe_aws_server(records.results(on_models, growth))

    assert "AWS server: models, for all rows." == alone
    wanted = "models for W1 piecework; ministack for W4 piecework 100 chunks"
    assert f"AWS server: {wanted}." == both


def test_a_record_of_before_there_was_a_choice_is_of_ministack(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    records.results(PIECEWORK).save(kept)
    document = json.loads(kept.read_text())
    del document["records"][0]["aws_server"]
    kept.write_text(json.dumps(document))

    assert "ministack" == results.load(kept).records[0].aws_server


def test_the_models_are_served_by_this_python_without_the_users_aws() -> None:
    command, environ = server_command("models", 7, 1)

    assert ["-m", "bench.aws_server", "--fd", "7"] == command[1:]
    assert not [name for name in environ if name.startswith(("AWS", "PIECEWORK"))]
