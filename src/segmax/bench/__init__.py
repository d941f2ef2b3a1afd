"""segmax beside other engines on the same vectors; `segmax bench` is its command.

Vectors come from `material`, engines from `engines`. `race` builds and searches each of them in fresh processes
(`task`), `results` chooses settings on one half of the queries and reports them on the other, `report` shows it.
"""
