"""The dashboards, written in Python and committed as JSON.

``queries`` holds the PromQL, ``panels`` the house style, ``saturation`` and ``decisions`` one dashboard each, ``build``
writes the files.
"""
