"""Where things lie that tests look at."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES_FOLDER = ROOT / "results" / "tables"
SHARED = ROOT.parent / "shared"
PUBLISHED_DATA = Path(os.environ.get("BENO_PUBLISHED_DATA", SHARED / "published-data"))
