"""Declared families: queries whose descriptions are fixed before anybody asks, and that pay by them alone (S10)."""
