"""What durable tasks cost on SQLite, beside what one would use instead.

    $ python -m bench.durable --quick

`samples` says what is measured, `ours` and `peers` do it, each time in a process that `children` starts, and
`targets` and `report` tell the result.
"""
