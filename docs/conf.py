"""Sphinx's settings for the documentation site; `make docs` builds it into build/docs."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_extensions"))

import public_names  # noqa: E402  # found on the path above

import segmax  # noqa: E402

public_names.import_integrations()

project = "segmax"
author = "The segmax developers"
copyright = author
version = release = segmax.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "myst_nb",
    "sphinx_copybutton",
    "site_map",
    "command_reference",
    "public_names",
]
exclude_patterns = ["README.md", "_*", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
nitpicky = True
suppress_warnings = ["config.cache"]  # of functions that templates call: pages are made anew anyway
smartquotes = False  # they would turn --option into –option

# --- Markdown and notebooks ---

myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "force"  # what a page shows is what this version of segmax prints
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_merge_streams = True

# --- the API reference ---

default_role = "py:obj"  # a name in backticks is linked if it is public, otherwise shown as code
autosummary_generate = True
autosummary_context = {"members_of": public_names.members_of, "kind_of": public_names.kind_of}
autosummary_imported_members = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_type_aliases = public_names.type_aliases()
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# --- how it looks: nothing is loaded from elsewhere, so that the site works offline ---

html_theme = "furo"
html_title = f"segmax {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
