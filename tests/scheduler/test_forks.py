"""Forks: the child's scheduler starts afresh, and the parent's goes on as if nothing had happened."""

from pathlib import Path

import pytest

from tests.scheduler.programs import run_program

pytestmark = pytest.mark.slow  # each test starts programs

BEGINNING = """
import asyncio, gc, os, signal, sys, threading, time
from tickwheel import AsyncScheduler, Scheduler
from tickwheel.errors import SchedulerForked, SchedulerNotStarted
from tickwheel.tasks import Status

scheduler = Scheduler("sqlite:///tasks.db", lease_ttl_ms=1000, grace_s=5)

@scheduler.task("note")
def note(what: str) -> int:
    return os.getpid()

def fork(run):
    pid = os.fork()
    if pid:
        return pid
    try:
        run()
    finally:
        sys.stdout.flush()
        os._exit(0 if sys.exc_info()[0] is None else 1)

def join(*pids):
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def wait_for(count, status=Status.COMPLETED):
    while scheduler.counts()[status] < count:
        time.sleep(0.02)
"""


def test_children_of_a_parent_that_has_started_add_and_run_tasks_beside_it(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
scheduler.start()
scheduler.add("note", {"what": "before"})
wait_for(1)

def work():
    for number in range(5):
        scheduler.add("note", {"what": "child"})
    with scheduler:
        wait_for(31)

children = [fork(work) for _ in range(5)]
for number in range(5):
    scheduler.add("note", {"what": "parent"})
join(*children)
wait_for(31)
ran_by = {scheduler.get(task.id).result for task in scheduler.list().tasks}
nodes = {run.node for task in scheduler.list().tasks for run in scheduler.history(task.id)}
print(len(scheduler.list().tasks), len(ran_by), len(nodes), ran_by <= {os.getpid(), *children}, os.getpid() in ran_by)
scheduler.stop()
""",
    )
    tasks, processes, nodes, ours, parent = printed[0].split()
    assert (tasks, ours, parent) == ("31", "True", "True")
    assert processes == nodes, "each process is a node of its own"


def test_what_a_child_acknowledged_survives_the_end_of_its_parent(tmp_path: Path) -> None:
    # SQLite takes the locks of the parent for the child's own, unless the copied connections are closed in the child:
    # then the parent removes the log on its way out, and what the child writes is in a file without a name.
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
adder = Scheduler("sqlite:///tasks.db", run=False).start()
adder.add("note", {"what": "parent"}, id="parent", delay="1h")
to_child, to_parent = os.pipe(), os.pipe()

def work():
    adder.add("note", {"what": "child"}, id="child", delay="1h")
    os.write(to_parent[1], b"x")
    os.read(to_child[0], 1)
    adder.add("note", {"what": "child"}, id="later", delay="1h")
    adder.stop()

child = fork(work)
os.read(to_parent[0], 1)
adder.stop()
os.write(to_child[1], b"x")
join(child)
with adder:
    print(sorted(task.id for task in adder.list().tasks))
""",
    )
    assert printed == ["['child', 'later', 'parent']"]


def test_a_child_in_another_folder_uses_the_file_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
adder = Scheduler("sqlite:///tasks.db", run=False).start()

def work():
    os.chdir("elsewhere")
    adder.add("note", {"what": "child"}, id="child", delay="1h")
    adder.stop()

join(fork(work))
print(adder.get("child").status, os.listdir("elsewhere"))
""",
    )
    assert printed == ["pending []"]


def test_a_fork_in_the_middle_of_writes_waits_for_them_and_loses_nothing(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
adder = Scheduler("sqlite:///tasks.db", run=False).start()
added, ended = [0] * 4, threading.Event()

def add(thread):
    while not ended.is_set():
        adder.add("note", {"what": "x"}, delay="1h")
        added[thread] += 1

threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
children = [fork(lambda: [adder.add("note", {"what": "y"}, delay="1h") for _ in range(5)]) for _ in range(20)]
join(*children)
ended.set()
for thread in threads:
    thread.join()
print(adder.counts()[Status.PENDING] == sum(added) + 100, min(added) > 0)
adder.stop()
import apsw
print(apsw.Connection("tasks.db").execute("PRAGMA integrity_check").get)
""",
    )
    assert printed == ["True True", "ok"]


@pytest.mark.parametrize("ending", ["sys.exit()", "pass"])
def test_a_child_that_ends_as_programs_do_does_not_stop_its_parent(tmp_path: Path, ending: str) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + f"""
interrupted = threading.Event()

@scheduler.task("wait")
async def wait() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        print("the child ran the end of a coroutine of its parent's", flush=True)

scheduler.start()
scheduler.add("wait", id="wait")
while scheduler.get("wait").status is not Status.RUNNING:
    time.sleep(0.01)
sys.stdout.flush()
child = os.fork()
if not child:
    gc.collect()
    {ending}
else:
    join(child)
    scheduler.add("note", {{"what": "after"}}, id="after")
    wait_for(1)
    print(scheduler.get("after").result == os.getpid(), scheduler.get("wait").status.value, flush=True)
    os._exit(0)
""",
    )
    assert printed == ["True running"]


def test_a_child_that_used_its_scheduler_gives_its_partitions_back_at_its_end(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
scheduler.start()
child = os.fork()
if not child:
    scheduler.add("note", {"what": "child"})
    while len({lease.node for lease in scheduler.leases()}) < 2:
        time.sleep(0.02)
    sys.exit()
join(child)
print(len({lease.node for lease in scheduler.leases()}))
scheduler.stop()
""",
    )
    assert printed == ["1"]


def test_a_scheduler_that_was_not_started_is_not_started_in_the_child(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
def work():
    try:
        scheduler.counts()
    except SchedulerNotStarted as error:
        print("not started")

join(fork(work))
with scheduler:
    child = fork(lambda: scheduler.stop())
    join(child)
    print(scheduler.counts()[Status.PENDING])
join(fork(work))
""",
    )
    assert printed == ["not started", "0", "not started"]


def test_a_lock_that_another_thread_holds_during_the_fork_does_not_hang_the_child(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
scheduler.start()
with scheduler._lock, scheduler._turns:
    child = os.fork()
    if not child:
        scheduler.add("note", {"what": "child"}, id="child", delay="1h")
        scheduler.stop()
        os._exit(0)
join(child)
print(scheduler.get("child").args)
scheduler.stop()
""",
    )
    assert printed == ["{'what': 'child'}"]


def test_children_draw_ids_of_their_own(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
clocked = AsyncScheduler("memory://", run=False)

def work():
    async def main():
        async with clocked:
            task = await clocked.add("note", {"what": "x"}, delay="1h")
            print(f"{task.id[12:]}\\n", end="")  # after the moment, and in one write
    asyncio.run(main())

join(*[fork(work) for _ in range(4)])
""",
    )
    assert len(set(printed)) == 4


def test_an_async_scheduler_refuses_to_work_in_a_forked_child(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
async def main():
    async with AsyncScheduler("sqlite:///tasks.db") as running:
        def use():
            for call in (running.get("a"), running.start(), running.stop(), running.counts()):
                try:
                    call.send(None)
                except SchedulerForked as error:
                    print(f"process {os.getppid()} " in str(error))
        join(fork(use))
        await running.counts()
        print("the parent works")

asyncio.run(main())
""",
    )
    assert printed == ["True"] * 4 + ["the parent works"]


def test_worker_processes_of_the_parent_outlive_a_child(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("import time\n\n\ndef nap() -> None:\n    time.sleep(1)\n")
    printed = run_program(
        tmp_path,
        """
import os, sys, time
from handlers import nap
from tickwheel import Scheduler
from tickwheel.tasks import Status

if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    scheduler = Scheduler("sqlite:///tasks.db", processes=1)
    scheduler.task("nap", pool="process")(nap)
    scheduler.start()
    scheduler.add("nap", id="warm")
    while scheduler.get("warm").status is not Status.COMPLETED:
        time.sleep(0.02)
    scheduler.add("nap", id="nap")
    time.sleep(0.3)
    child = os.fork()
    if not child:
        sys.exit()
    os.waitpid(child, 0)
    while scheduler.get("nap").status not in (Status.COMPLETED, Status.FAILED):
        time.sleep(0.02)
    print(scheduler.get("nap").status.value)
    scheduler.stop()
""",
    )
    assert printed == ["completed"]


@pytest.mark.parametrize("async_", ["", "async "])
@pytest.mark.parametrize(("ending", "status"), [("return", 0), ("raise ValueError", 1), ("sys.exit(3)", 3)])
def test_what_a_handler_forks_ends_where_it_comes_back(tmp_path: Path, async_: str, ending: str, status: int) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + f"""
sys.excepthook = lambda *_: None  # the child shows what it raised

@scheduler.task("fork")
{async_}def fork_here() -> int:
    child = os.fork()
    if not child:
        signal.alarm(30)  # it does not live for ever, whatever becomes of it
        {ending}
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

scheduler.start()
scheduler.add("fork", id="fork")
wait_for(1)
scheduler.add("note", {{"what": "after"}})
wait_for(2)
print(scheduler.get("fork").result, flush=True)
scheduler.stop()
""",
    )
    assert printed == [str(status)]


@pytest.mark.parametrize(
    "ending",
    [
        "child = Process(target=work); child.start(); child.join()",
        "with Pool(1) as pool: pool.apply(work); pool.close(); pool.join()",
    ],
)
def test_a_child_of_multiprocessing_leaves_no_node_behind(tmp_path: Path, ending: str) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + f"""
from multiprocessing import get_context
from pathlib import Path

Process, Pool = get_context("fork").Process, get_context("fork").Pool

def work():
    scheduler.add("note", {{"what": "child"}})
    while len({{lease.node for lease in scheduler.leases()}}) < 2:
        time.sleep(0.02)

scheduler.start()
before = set(Path().glob("tasks.db-node-*"))
{ending}
print(set(Path().glob("tasks.db-node-*")) == before)
scheduler.stop()
""",
    )
    assert printed == ["True"]


MULTIPROCESSING = """
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import util
from pathlib import Path

def tell_end(ended):
    # Before anything else is done at the end of the child; from Python 3.13 on, it ends as programs do.
    if sys.version_info < (3, 13):
        util.Finalize(None, ended.set, exitpriority=1000)
    else:
        threading._register_atexit(ended.set)

def start_child(method, target):
    context = multiprocessing.get_context(method)
    ended, go_on, results = context.Event(), context.Event(), context.Queue()
    child = context.Process(target=target, args=(ended, go_on, results))
    child.start()
    assert ended.wait(30)
    go_on.set()
    return child, results
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_what_runs_in_a_child_of_multiprocessing_ends_before_its_queues(tmp_path: Path, method: str) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + MULTIPROCESSING
        + f"""
@scheduler.task("slow")
def slow() -> None:
    given["go_on"].wait()
    given["results"].put("a result")

given = {{}}

def work(ended, go_on, results):
    given.update(go_on=go_on, results=results)
    scheduler.start()
    scheduler.add("slow", id="slow")
    while scheduler.get("slow").status is not Status.RUNNING:
        time.sleep(0.01)
    tell_end(ended)

if __name__ == "__main__":
    child, results = start_child({method!r}, work)
    print(results.get(timeout=30))
    child.join()
    print(child.exitcode, len(list(Path().glob("tasks.db-node-*"))))
    with Scheduler("sqlite:///tasks.db", run=False) as reader:
        print(reader.get("slow").status.value, [run.status.value for run in reader.history("slow")])
""",
    )
    assert printed == ["a result", "0 0", "completed ['completed']"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_runs_tasks_until_its_last_thread_ends(tmp_path: Path, method: str) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + MULTIPROCESSING
        + f"""
def go_on_there(go_on):
    go_on.wait()
    scheduler.add("note", {{"what": "thread"}}, id="thread")
    wait_for(1)

def work(ended, go_on, results):
    scheduler.start()
    executor.append(ThreadPoolExecutor(1))
    executor[0].submit(int).result()  # its thread waits for more work until Python ends
    threading.Thread(target=go_on_there, args=(go_on,)).start()
    tell_end(ended)

executor = []

if __name__ == "__main__":
    child, _ = start_child({method!r}, work)
    child.join()
    print(child.exitcode, len(list(Path().glob("tasks.db-node-*"))))
    with Scheduler("sqlite:///tasks.db", run=False) as reader:
        print(reader.get("thread").result == child.pid)
""",
    )
    assert printed == ["0 0", "True"]


@pytest.mark.parametrize("kind", ["async", "blocking"])
def test_a_child_that_awaits_in_a_handler_does_not_go_on_with_the_loop_of_its_parent(tmp_path: Path, kind: str) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + f"""
kind = {kind!r}
child = 0
inner = AsyncScheduler("sqlite:///tasks.db")

@inner.task("sleeper")
async def sleeper():
    await asyncio.sleep(0.5)
    print(f"over in process {{os.getpid()}}\\n", end="", flush=True)

@inner.task("forker")
async def forker():
    global child
    never = asyncio.get_running_loop().create_future()
    child = os.fork()
    if not child:
        sys.stderr = open(os.devnull, "w")
        await never

async def watch():
    await inner.add_many([{{"handler": "sleeper"}}] * 5)
    await asyncio.sleep(0.2)
    await inner.add("forker")
    while (await inner.counts())[Status.COMPLETED] < 6:
        await asyncio.sleep(0.02)

async def main():
    async with inner:
        await watch()

if kind == "async":
    asyncio.run(main())
else:
    with Scheduler(inner) as scheduler:
        scheduler.run(watch())
print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
    )
    assert len(printed) == 6
    assert len(set(printed[:5])) == 1, "the process of the parent alone"
    assert printed[5] == "ended with 1"


def test_a_fork_of_the_program_itself_is_left_to_it(tmp_path: Path) -> None:
    printed = run_program(
        tmp_path,
        BEGINNING
        + """
async def main():
    async with AsyncScheduler("memory://") as beside:
        @beside.task("note")
        async def note(): ...
        await beside.add("note")
        while (await beside.counts())[Status.COMPLETED] < 1:
            await asyncio.sleep(0.02)
        child = os.fork()
        if not child:
            await asyncio.sleep(0)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

asyncio.run(main())
""",
    )
    assert printed == ["7"]
