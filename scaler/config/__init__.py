"""The door: trigger metadata and server settings are read and checked here, and nothing behind it checks them again."""
