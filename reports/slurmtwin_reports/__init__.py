"""Metrics, checks, comparisons and reports. All of it reads event tables; none of it knows a model.

load -> history -> job_table -> metrics
                -> checks/            properties of one run
                -> difference -> conformance   twin against real, phase by phase
                -> compare            one run against another
verdicts -> known_differences -> judge -> tables, junit, html (figures drawn by svg)
"""
