"""Sphinx configuration; warnings are errors in `make docs`."""

import pkgutil
from importlib import import_module

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

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
autodoc_inherit_docstrings = False  # PyTorch's refer to pages of its own
html_theme = "furo"
html_title = "beno"
html_static_path = ["_static"]
exclude_patterns = ["_build"]


class PackageApi(SphinxDirective):
    """Every public class and function of a package, module by module, so that no page need list them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        package = import_module(self.arguments[0])
        below = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        lines = [f".. automodule:: {package.__name__}", ""]
        for name in filter(can_be_imported, below):
            lines += [f".. rubric:: {name}", "", f".. automodule:: {name}", "   :members:", "   :undoc-members:", ""]
        return self.parse_text_to_nodes("\n".join(lines))


def can_be_imported(name: str) -> bool:
    """Triton's kernels need its compiler, which is there on a GPU alone."""
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        return False
    return True


def escape_bars(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """|u| is an absolute value in docstrings, and a substitution in reStructuredText."""
    lines[:] = [line.replace("|", r"\|") if not line.lstrip().startswith(">>>") else line for line in lines]


def setup(app: Sphinx) -> None:
    app.add_directive("package-api", PackageApi)
    app.connect("autodoc-process-docstring", escape_bars)
