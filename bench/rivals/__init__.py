"""A script for each rival; it runs in the rival's own environment.

The environment has this folder on its path, and neither Piecework nor `bench`:

    python bench/rivals/NAME.py setup|enqueue|work|teardown --config FILE.json

`setup` makes queues, tables or a schema as the rival's documentation advises.
`enqueue` submits every task of `config.tasks` and prints what `submitted` returns.
`work` is one worker process in the foreground, until SIGTERM or SIGKILL ends it.
`teardown` removes what `setup` made. A script logs to stderr, and is short:

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

A task is a word. In W1 (does nothing) and in W3 (takes `sleep_s`) it is a number. In
W2a it is `CHUNK.CALL`, for one call. In W2b it is a chunk's number: the task makes all
calls of the chunk, and fails if one failed. A rival that keeps the results of steps
makes each call of W2b in a step. `config.calls_of(task)` has the calls; a step does
`tasks.call(chunk, number)` or `await tasks.acall(chunk, number)`. A call that fails
raises `CallFailedError`. The rival retries it by its own means, at once if they allow.
"""
