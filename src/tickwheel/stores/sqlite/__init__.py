"""Tasks in an SQLite file: durable on one machine, for any number of its processes.

    store ---> connection_thread ---> group_commit ---> writes, leases      one thread writes, in groups
          +--> connection_thread -------------------> reads, lists          another one reads, and waits for nobody

    store              implements the contract, and hands every call to one of the two threads
    connection         opens the file twice; schema checks and migrates it, statements has the SQL by name
    file_locks         hold SQLite's locks a second time, where other code in this process cannot drop them
    open_files         rejects other code in this process that opens the file; forks keeps a fork from copying its locks
    nodes              knows which processes live: node_locks where the system has file locks, renewals where it has not
    notifier           tells other processes what changed, without polling
    errors             say what to do

Read store first, then connection_thread and group_commit, and then how a dead process is noticed: node_locks.
"""

from tickwheel.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
