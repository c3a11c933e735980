"""Run the receiver: `python -m piecework_examples.webhook_receiver 8484 events.db`."""

import os
import sys
from pathlib import Path

from piecework_examples.webhook_receiver.receiver import serve

if __name__ == "__main__":
    port, path = int(sys.argv[1]), Path(sys.argv[2])
    server = serve(os.environ["PIECEWORK_WEBHOOK_SECRET"], path, port)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
