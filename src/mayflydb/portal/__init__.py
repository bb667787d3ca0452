"""Pages for people: what is stored, when it goes, and the settings that decide so. Forms first; scripts make them quicker."""
