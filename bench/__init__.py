"""Benchmarks: what each timer scheme costs, and what stands on it, beside what Python offers without.

    $ python -m bench --quick

`subjects` says what is measured, `workloads` what it is made to do, `measure` takes one sample in a
process of its own, `rounds` takes them all in turn, and `targets`, `report` and `plots` tell the result.
The loops that are timed are in `rigs` and `loops` for timer modules, and in a module for each family besides:
`timeouts`, `threads`, `lateness`, `caches`, `idle`. `echo` and `durable` are programs of their own.
"""
