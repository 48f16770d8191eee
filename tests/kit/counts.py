"""Where tests put what they counted: one text a name, printed once at the end, whichever process counted it."""

from __future__ import annotations

import pytest

COUNTED = pytest.StashKey[dict[str, str]]()
