"""Import paths from before everhold was split. They work for one version; entry points of `everhold.former_modules`."""

from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from warnings import warn

from everhold.extensions import extra_for, installed


class FormerModules(MetaPathFinder, Loader):
    """The last finder of `sys.meta_path`: a former module forwards to the new one, so classes exist once."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """Specification of a former module, or of a module in a former package."""
        package, _, name = fullname.partition(".")
        place = _place(name) if package == "everhold" and name else None
        if not place or (found := find_spec(place)) is None:
            return None
        return ModuleSpec(fullname, self, loader_state=place, is_package=found.submodule_search_locations is not None)

    def exec_module(self, module: ModuleType) -> None:
        """Import the new module, and forward to it."""
        place: str = module.__spec__.loader_state  # type: ignore[union-attr]  # it was made by find_spec
        warn(f"{module.__name__} is now {place}", FutureWarning, stacklevel=2)
        new = import_module(place)
        vars(module).update(__doc__=new.__doc__, __getattr__=partial(getattr, new), __dir__=partial(dir, new))


def _place(name: str) -> str | None:
    group = "everhold.former_modules"
    if point := installed(group).get(name):
        return point.value
    if extra := extra_for(group, name):
        raise ModuleNotFoundError(f"everhold.{name} is not installed. Install it: pip install 'everhold[{extra}]'.")
    parent, _, child = name.rpartition(".")
    return f"{place}.{child}" if parent and (place := _place(parent)) else None
