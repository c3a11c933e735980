from __future__ import annotations

from typing import Any

import pytest

from piecework.errors import UsageError
from piecework.settings import Settings, load_settings


def refused(**overrides: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load_settings(**overrides)
    assert caught.value.code == "config.setting.invalid"
    return caught.value.message


def test_the_defaults_are_consistent() -> None:
    settings = load_settings()
    assert settings.lease_s < settings.visibility_s
    assert settings.lease_s + settings.clock_skew_s < settings.visibility_s
    assert settings.stall_timeout_s < settings.max_runtime_s < 12 * 3600
    assert settings.shutdown_grace_s < 30


def test_every_resource_is_named_after_the_deployment() -> None:
    settings = load_settings(app="cases", env="prod")
    assert settings.work_queue == "cases-prod-work"
    assert settings.dead_letter_queue == "cases-prod-work-dlq"
    assert settings.checkpoints_table == "cases-prod-checkpoints"
    assert settings.dead_letters_table == "cases-prod-dead-letters"
    assert settings.bucket("1", "eu-west-1") == "cases-prod-1-eu-west-1"


def test_the_longest_names_still_make_a_bucket() -> None:
    settings = load_settings(app="a" * 20, env="e" * 14)
    assert len(settings.bucket("0" * 12, "ap-southeast-2")) <= 63


def test_the_environment_is_read_by_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIECEWORK_LEASE_S", "7.5")
    monkeypatch.setenv("LEASE_S", "8")
    assert load_settings().lease_s == 7.5


def test_an_argument_comes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIECEWORK_MAX_CHUNKS", "3")
    assert load_settings(max_chunks=5).max_chunks == 5


@pytest.mark.parametrize("visibility_s", [60.0, 59.0])
def test_a_visibility_shorter_than_the_lease_is_refused(
    visibility_s: float,
) -> None:
    said = refused(lease_s=60.0, visibility_s=visibility_s)
    assert "visibility_s must be longer than lease_s" in said


@pytest.mark.parametrize(
    ("grace_s", "most_s", "poll_s"),
    [(20.0, 20, 20), (5.9, 20, 5), (0.0, 9, 1), (9.0, 0, 0)],
)
def test_a_long_poll_ends_within_the_shutdown_grace(
    grace_s: float, most_s: int, poll_s: int
) -> None:
    made = Settings(shutdown_grace_s=grace_s, receive_wait_s=most_s)
    assert poll_s == made.long_poll_s


def test_one_receive_must_suffice_for_the_longest_run() -> None:
    longest: dict[str, Any] = {"max_runtime_s": 39_600.0, "visibility_s": 2_400.0}
    assert load_settings(**longest).max_runtime_s == 39_600.0
    assert "max_runtime_s and visibility_s" in refused(
        **longest | {"visibility_s": 2_401}
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("app", "Upper"),
        ("app", "a-b"),
        ("app", "a" * 21),
        ("env", "a" * 15),
        ("env", "prod-eu"),
        ("env", "a\n"),
        ("tenant", "a#b"),
        ("tenant", ""),
        ("lease_s", 0.4),
        ("visibility_s", 43_201),
        ("clock_skew_s", -0.1),
        ("max_attempts", 0),
        ("max_attempts", 101),
        ("max_runtime_s", 39_601),
        ("max_runtime_s", 0),
        ("stall_timeout_s", 0),
        ("receive_wait_s", 21),
        ("max_chunks", 0),
        ("journal_page", 0),
        ("journal_page", 101),
        ("job_retention_days", -1),
    ],
)
def test_a_bad_setting_is_named(name: str, value: Any) -> None:
    assert name in refused(**{name: value})


def test_every_bad_setting_is_named_at_once() -> None:
    said = refused(lease_s=0, receive_wait_s=99)
    assert "lease_s" in said
    assert "receive_wait_s" in said


def test_a_bad_value_is_not_quoted_because_it_may_be_secret() -> None:
    assert "hunter2!" not in refused(tenant="hunter2!")


def test_the_longest_wait_leaves_a_tenth_of_the_lease_to_the_next_renewal() -> None:
    """A third of the lease may be over when the wait begins."""
    assert pytest.approx(34.0) == Settings(lease_s=60.0).longest_wait_s
