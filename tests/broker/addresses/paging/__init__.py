"""Tests of the pages of full addresses."""
