from cli_samples import everhold

__all__ = ["everhold"]  # the fixture that runs a command
