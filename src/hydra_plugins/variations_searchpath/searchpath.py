"""Hydra looks for groups in the folders that `variations.configuration.doors` knows, too."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class VariationsSearchPath(SearchPathPlugin):
    """Appends the folders of other packages after ours."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra when it makes a search path."""
        from variations.configuration.doors import folders
        from variations.configuration.places import CONF

        for folder in folders():
            if folder != CONF:
                search_path.append("variations-doors", f"file://{folder}")
