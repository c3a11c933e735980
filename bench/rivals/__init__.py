"""A script for each rival; it runs in the rival's own environment.

The environment has this folder on its path, and neither Piecework nor `bench`:

    python bench/rivals/NAME.py setup|enqueue|work|teardown --config FILE.json

`setup` makes queues, tables or a schema as the rival's documentation advises;
`enqueue` submits every task of `config.tasks` and prints what `submitted` returns;
`work` is one worker process, in the foreground, until it is killed by SIGTERM or
SIGKILL; `teardown` removes what `setup` made. A script logs to stderr, and is short:

    import protocol

    def setup(config): ...
    def enqueue(config): ...
    def work(config):
        tasks = protocol.Tasks(config)
        ...  # register a handler: `tasks.perform(word)`, `await tasks.aperform(word)`
        tasks.ledger.ready()  # from here on it consumes
        ...
    def teardown(config): ...

    if __name__ == "__main__":
        protocol.main(setup, enqueue, work, teardown)

A task is a word: a number in W1 (does nothing) and W3 (takes `sleep_s`);
`CHUNK.CALL` in W2a (a task makes one call); a chunk's number in W2b (a task makes
all calls of a chunk, and fails when one of them did). A rival that keeps the
results of steps makes the calls of W2b as steps: `config.calls_of(task)`, and
`tasks.call(chunk, number)` or `await tasks.acall(chunk, number)` in each.
A call that fails raises `CallFailedError`; the rival retries it by its own means, at
once if they allow.
"""
