from __future__ import annotations

from bench.aws_server.resources import Template
from piecework.aws.endpoint import Emulator
from piecework.settings import Settings

NOWHERE = Emulator("http://127.0.0.1:1", 0, "us-east-1", "models")
SETTINGS = Settings(app="app", env="env")


def test_the_queues_are_those_of_the_template_the_dead_letters_first() -> None:
    dead, work = Template(NOWHERE, {"App": "app", "Env": "env"}).queues()

    names = (dead["QueueName"], work["QueueName"])
    assert (SETTINGS.dead_letter_queue, SETTINGS.work_queue) == names
    assert f'us-east-1:000000000000:{names[0]}"' in work["Attributes"]["RedrivePolicy"]
    assert "90" == work["Attributes"]["VisibilityTimeout"]


def test_tables_and_bucket_have_the_names_that_settings_know() -> None:
    template = Template(NOWHERE, {"App": "app", "Env": "env"})
    ok_answer = template.of_type("AWS::DynamoDB::Table")

    tables = {SETTINGS.checkpoints_table, SETTINGS.dead_letters_table}
    assert tables == {template.named(table["TableName"]) for table in ok_answer}
    [bucket] = template.of_type("AWS::S3::Bucket")
    name = SETTINGS.bucket("000000000000", "us-east-1")
    assert name == template.named(bucket["BucketName"])
