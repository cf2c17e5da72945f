"""The keys of a trigger, a file for each group of them. ``scaler.config.metadata`` puts them together.

A class is a section of docs/reference/trigger-metadata.md and its docstring the section's introduction; a field's
snake_case name is the key's camelCase one. Checks across keys stand in the last of the sections that they compare;
their names differ, since all sections end in one class.
"""
