"""Pictures that only the laboratory draws."""

__all__ = ["plots_available"]


def plots_available() -> bool:
    """True if the packages of ``everhold[plots]`` are installed."""
    try:
        import altair
        import vl_convert
    except ModuleNotFoundError:
        return False
    return bool(altair.__name__ and vl_convert.__name__)
