"""Print the page of error codes, or the list of the released codes.

python -m piecework.codes > docs/error-codes.md
python -m piecework.codes released > tests/unit/piecework/released_codes.txt
"""

from __future__ import annotations

import sys

from piecework.codes.page import page
from piecework.codes.released import released

if __name__ == "__main__":
    sys.stdout.write(released() if sys.argv[1:] == ["released"] else page())
