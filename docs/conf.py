"""Sphinx configuration; warnings are errors in `make docs`."""

from beno import __version__

project = "beno"
author = "The beno developers"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
# Shapes are read from the source: Float[np.ndarray, "n 2"] makes no link.
autodoc_typehints = "none"
html_theme = "furo"
html_title = "beno"
html_static_path = ["_static"]
exclude_patterns = ["_build"]
