"""Which examples Hypothesis tries: the same ones in every run of one version, or fresh ones for a hunt.

``make test`` gives one version of the code one verdict. ``make hunt`` looks for new counterexamples.
"""

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("hunt", derandomize=False, print_blob=True)
settings.load_profile("same")
