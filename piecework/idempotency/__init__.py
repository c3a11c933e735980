"""Execute an operation once: for any async function, inside a pipeline or not.

wrapper     `idempotent`, which wraps a function
guard       begins in the store, makes the call, records the outcome
strategies  decide which calls are the same: by key, by number, by a time window
operation   a call as its strategy sees it
record      the stored record, and what it means for the next equal call
refusals    the errors of a call that is neither made nor answered
store       what a store has to provide
memory      a store in this process; `piecework.store.idempotency` is a table
"""
