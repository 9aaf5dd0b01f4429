"""Databases: engines, transactions, migrations, through SQLAlchemy Core."""
