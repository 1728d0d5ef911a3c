"""The engine: runs the tasks of the partitions it owns.

    add -> store -> loader -> due index -> dispatcher -> claim -> executor -> worker -> completer -> finish -> store
                    pages     wheel and    what can      fenced   at its due            batches      fenced
                              priorities   begin                  time

    engine      starts, supervises and stops the others, and keeps the partitions
    loader      reads tasks from the store into the due index
    due_index   knows which task is due next, and which of those that are due is the most urgent
    dispatcher  claims what is due and can begin
    executor    begins each claimed task at its due time
    batches     splits a batch that one task makes fail
    router      moves due tasks to a node that has their handler, if this one does not
    completer   decides what becomes of a task after its run, and writes that
    listener    learns what other processes change
    janitor     recovers what a dead owner left, purges, and writes checkpoints

The store is the source of truth: nothing here is lost with the process. Read the modules in the order of the diagram.
"""
