"""Gates.

A champion that gives way only to a challenger that is proved better. Read `gate`, then `challenge` and `candidates`;
`cases` has gates about test suites.
"""
