"""The front end that speaks MongoDB's wire protocol."""
