"""Stands in for the package of the same name that the SDK's suite imports and that is on no package index.

Only what `test_config.py` asks for is here: `helpers.is_live` and `azure_recorded_testcase.get_credential`.
"""
