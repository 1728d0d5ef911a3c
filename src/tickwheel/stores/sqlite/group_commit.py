"""How a group of calls is done: written in one transaction, or read from one state of the file."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import apsw

from tickwheel.errors import StoreUnavailable
from tickwheel.stores.contract import Conflict
from tickwheel.stores.notifications import News
from tickwheel.stores.sqlite.connection import Database
from tickwheel.stores.sqlite.connection_thread import Call
from tickwheel.stores.sqlite.errors import translate_error
from tickwheel.stores.sqlite.notifier import Notifier
from tickwheel.stores.sqlite.reads import text_of
from tickwheel.stores.sqlite.renewals import Renewals
from tickwheel.stores.sqlite.statements import SQL
from tickwheel.stores.sqlite.writes import Adds, Transaction
from tickwheel.tasks.transitions import STEP_MS

__all__ = ["GroupCommit", "Reader", "Writer"]

LOOK_S: Final = 0.8  # between two looks for changes that nobody told of
POLL_S: Final = 0.25  # where nobody can tell
UNDERWAY_S: Final = 0.05  # a change was committed, and what tells of it may be on its way
READS_MAX: Final = 10  # attempts to read while other code in this process keeps dropping SQLite's locks


class GroupCommit:
    """Does groups of calls, each group in one transaction, on a thread and a connection of its own."""

    def __init__(self, database: Database) -> None:
        self.commits = 0
        self._database = database
        self._connection = database.writer

    def do(self, group: list[Call]) -> None:
        """Do calls in one transaction: each is kept or refused by itself, but none is answered before the commit."""
        try:
            with self._database.locks.turn():
                drops = self._database.locks.drops
                self._connection.execute("BEGIN IMMEDIATE")
                for call in self._together(group):
                    if not call.future.cancelled():
                        self._do_one(call)
                self._settle()
                self._database.check_locks(drops)
                self._database.check_in_place()  # nothing is kept in a file that was there no more
                self._connection.execute("COMMIT")
            self._database.check_in_place()
            self.commits += 1
            self._announce()
        except (apsw.Error, StoreUnavailable) as error:
            self._give_up(group, error)

    def _together(self, group: list[Call]) -> list[Call]:
        """Do what can be done as if one had called; return who is left."""
        return group

    def _do_one(self, call: Call) -> None:
        self._connection.execute("SAVEPOINT call")
        try:
            self._work(call)
        except apsw.Error:  # the file's fault, and everybody's problem
            raise
        except Exception as error:  # noqa: BLE001 - its caller gets it, the others get their answers
            call.error = error
            self._connection.execute("ROLLBACK TO call")
        self._connection.execute("RELEASE call")

    def _work(self, call: Call) -> None:
        """Do what a call is about."""
        call.answer = call.work(self._connection)

    def _settle(self) -> None:
        """Write what all calls of the group have come to."""

    def _announce(self) -> None:
        """Do what was to be done once it is committed, and tell others of it."""

    def _give_up(self, group: list[Call], error: apsw.Error | StoreUnavailable) -> None:
        """Undo everything and say so; the connection is as good as before."""
        undo(self._connection)
        for call in group:
            call.error = (
                translate_error(self._database.path, error)
                if isinstance(error, apsw.Error)
                else StoreUnavailable(*error.args)
            )
            call.touched = News()


class Writer(GroupCommit):
    """Writes tasks, and counts them."""

    def __init__(
        self,
        database: Database,
        notifier: Notifier,
        everywhere: News,
        now_ms: Callable[[], int],
        renewals: Renewals,
    ) -> None:
        super().__init__(database)
        self._everywhere = everywhere
        self._now_ms = now_ms
        self._renewals = renewals
        self._notifier = notifier
        self._counted: Counter[int] = Counter()
        self._touched = News()
        self._on_commit: list[Callable[[], None]] = []
        self._change: tuple[int, list[str]] | None = None  # its number, and the lock files of all nodes
        self._seen = self._connection.pragma("data_version")
        self._done_at = 0  # when the last call was made
        self._noted_at = 0  # when it was noted last that something changed
        self._unheard = 0  # a change that was found in the file, and may be told of yet
        notifier.skip_to(self._connection.execute(SQL["last_change"]).get)

    def do(self, group: list[Call]) -> None:
        """Do calls in one transaction, and count what they did when it is over."""
        self._counted.clear()
        self._touched.clear()
        self._on_commit.clear()
        self._change = None
        super().do(group)

    def _together(self, group: list[Call]) -> list[Call]:
        """Write what many callers add as if one did, if nothing of it is there already."""
        adding = {call: call.work for call in group if isinstance(call.work, Adds) and not call.future.cancelled()}
        if len(adding) < 2:  # noqa: PLR2004 - company is two
            return group
        self._connection.execute("SAVEPOINT call")
        transaction = Transaction(self._connection, 0, self._renewals)  # what is inserted brings its times along
        tasks = [task for adds in adding.values() for task in adds.tasks]
        done = transaction.insert(tasks, [body for adds in adding.values() for body in adds.bodies])
        self._connection.execute("RELEASE call")
        if not done:
            return group
        for call, adds in adding.items():
            call.answer = [Conflict(task, added=True) for task in adds.tasks]
        next(iter(adding)).touched = transaction.touched
        self._counted.update(transaction.counted)
        self._touched.merge(transaction.touched)
        return [call for call in group if call not in adding]

    def _work(self, call: Call) -> None:
        transaction = Transaction(self._connection, self._now_ms(), self._renewals)
        call.answer = call.work(transaction)
        self._done_at = transaction.now
        self._counted.update(transaction.counted)
        call.touched = transaction.touched
        self._touched.merge(transaction.touched)
        self._on_commit += transaction.on_commit

    def _settle(self) -> None:
        self._connection.executemany(
            SQL["count"], [(tasks, status) for status, tasks in self._counted.items() if tasks]
        )
        if self._touched:
            locks = [text_of(lock) for (lock,) in self._connection.execute(SQL["locks"])]
            self._noted_at = self._now_ms()
            self._change = self._connection.execute(SQL["next_change"], (self._noted_at,)).get, locks
        elif self._counted and abs(self._done_at - self._noted_at) > STEP_MS:
            # Outcomes, mostly: what a clock decided that was ahead shows by when they were written.
            self._connection.execute(SQL["note_changed_at"], (self._done_at,))
            self._noted_at = self._done_at

    def _announce(self) -> None:
        for act in self._on_commit:
            act()
        if self._change is not None:
            number, locks = self._change
            self._notifier.send(number, self._touched, locks)

    def look(self) -> tuple[News, float]:
        """Return where others changed something that was not told: everywhere, or nowhere; and when to look again."""
        news = self._notifier.drain()
        pause_s = LOOK_S if self._notifier.listens else POLL_S
        try:
            seen = self._connection.pragma("data_version")
            if seen != self._seen:
                self._seen = seen
                self._unheard = self._connection.execute(SQL["last_change"]).get
                if not self._notifier.knows_all(self._unheard):
                    return news, UNDERWAY_S
        except apsw.Error:  # the next call will say it better
            return news, pause_s
        if not self._notifier.knows_all(self._unheard):
            self._notifier.skip_to(self._unheard)
            self._notifier.count(self._everywhere)
            news.merge(self._everywhere)
        return news, pause_s


class Reader:
    """Reads for groups of calls, on a thread and a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.reader

    def do(self, group: list[Call]) -> None:
        """Do calls that all see the same state of the file."""
        for _ in range(READS_MAX):
            drops = self._database.locks.drops
            self._read(group)
            if self._database.locks.count_drops() == drops:  # what was read without a lock may be anything
                return
        for call in group:
            call.error = StoreUnavailable(
                f"{self._database.path}: other code in this process closes the file all the time, which drops SQLite's "
                "locks; use another process for that"
            )

    def _read(self, group: list[Call]) -> None:
        try:
            self._connection.execute("BEGIN")
            for call in group:
                self._do_one(call)
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            undo(self._connection)
            for call in group:
                call.error = translate_error(self._database.path, error)

    def _do_one(self, call: Call) -> None:
        call.error = None
        try:
            call.answer = call.work(self._connection)
        except apsw.Error:
            raise
        except Exception as error:  # noqa: BLE001 - its caller gets it
            call.error = error


def undo(connection: apsw.Connection) -> None:
    """End a transaction that failed, if there is one."""
    if connection.in_transaction:
        with suppress(apsw.Error):
            connection.execute("ROLLBACK")
