"""Pack a lake that this state of enrich has made: ``PYTHONPATH=tests python -m upgrade.pack NAME``."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from kit.session import small_session
from upgrade.project import begin, go_on

HERE = Path(__file__).parent


def main(name: str) -> None:
    """Play two rounds and write ``lake-<name>.tar.xz``; the times of the files are kept, for they are the commits'."""
    with tempfile.TemporaryDirectory() as home:
        lab = begin(Path(home) / "project", small_session())
        for prepare in (None, go_on):
            if prepare:
                prepare(lab)
            found = lab.run_all()
            if found.exit_code:
                raise SystemExit(f"exit {found.exit_code}: {[job.error for job in found.jobs]}")
        with tarfile.open(HERE / f"lake-{name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as packed:
            packed.add(lab.home, "project")


if __name__ == "__main__":
    main(sys.argv[1])
