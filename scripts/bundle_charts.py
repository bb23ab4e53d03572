"""Bundle Vega, Vega-Lite and Vega-Embed for pages: `python scripts/bundle_charts.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import vl_convert

if __name__ == "__main__":
    versions = f"vega {vl_convert.get_vega_version()}, vega-lite {vl_convert.get_vegalite_versions()[-1]}"
    versions += f", vega-embed {vl_convert.get_vega_embed_version()}"
    head = f"/* {versions}; BSD-3-Clause; by vl-convert {vl_convert.__version__} */\n"
    Path(sys.argv[1]).write_text(head + vl_convert.javascript_bundle(), encoding="utf-8")
