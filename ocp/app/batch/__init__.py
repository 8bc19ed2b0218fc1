"""Batches, sweeps and trials: cases of one file, solved by programs that are built once, here or on many machines.

    recipe.py     which overrides of a file are numbers of one program, and how they become numbers: pure data
    work.py       one case as pure data, and what a worker makes of it
    plan.py       which cases: grids, samples, tables
    workers.py    processes of this machine, or of a Dask cluster
    store.py      the folder of a sweep: a journal that a killed process leaves whole
    schedule.py   what is worked on next, whoever works
    study.py      any study, carried out
    run.py        the sweep
    trials.py     Monte Carlo of closed loops
"""
