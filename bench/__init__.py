"""Benchmarks: what each timer scheme costs, beside what Python offers without it.

    $ python -m bench --quick

`subjects` says what is measured, `workloads` what it is made to do, `measure` takes one sample in a
process of its own, `rounds` takes them all in turn, and `targets`, `report` and `plots` tell the result.
"""
