"""Tests of the package `cluster`."""
