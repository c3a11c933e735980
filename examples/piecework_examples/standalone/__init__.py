"""Parts of Piecework around any async function, without a worker."""
