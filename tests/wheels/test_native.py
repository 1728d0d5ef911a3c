"""What native classes must not do to the process they are in: weak references, other interpreters."""

import pytest

from tests.builds import Build, compiler_at_hand
from tests.wheels.processes import run


def test_every_native_class_clears_its_weak_references_or_refuses_them(build: Build) -> None:
    script = """
        import gc
        import importlib
        import inspect
        import weakref
        from pathlib import Path

        import tickwheel
        from tickwheel import IdleTimeouts, ManualTimers, TTLCache, VirtualClock, wheels

        def native_modules():
            folder = Path(tickwheel.__file__).parent
            files = list(folder.rglob("*.so")) or list(folder.glob("wheels/*[!_].py"))  # nothing was compiled here
            for file in files:
                package = file.relative_to(folder.parent).parent.parts
                yield importlib.import_module(".".join((*package, file.name.split(".")[0])))

        def makers():
            yield lambda: wheels.HierarchicalWheel().start(5)
            yield lambda: wheels.HierarchicalWheel().start(5).slot
            yield lambda: wheels.BinaryHeap().start(5)
            yield lambda: wheels.BalancedTree().start(5).slot
            yield from (wheels.UnorderedList, wheels.OrderedList, wheels.BinaryHeap, wheels.BalancedTree)
            yield from (wheels.SimpleWheel, wheels.HashedWheel, wheels.SortedHashedWheel, wheels.HierarchicalWheel)
            yield lambda: TTLCache(5, 5)
            yield lambda: IdleTimeouts(ManualTimers(VirtualClock()))

        def clears_or_refuses(make):
            instance = make()
            try:
                reference = weakref.ref(instance)
            except TypeError:
                return True
            assert reference() is instance
            del instance
            gc.collect()
            return reference() is None

        classes = set()
        for module in set(native_modules()):
            classes |= {value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__}
        classes = {value for value in classes if isinstance(value, type) and not inspect.isabstract(value)}
        assert {wheels.Timer, wheels.Slot, wheels.HierarchicalWheel} <= classes, classes

        for make in makers():
            assert clears_or_refuses(make), make()
        for kind in classes:
            # Without an offset there is nowhere to keep weak references: that is what Python goes by.
            assert kind.__weakrefoffset__ == 0 or clears_or_refuses(lambda: kind.__new__(kind)), kind
        print("all")
    """
    assert run(script, build.name).stdout == "all\n"


@pytest.mark.skipif(not compiler_at_hand(), reason="no C compiler here, so no native modules to refuse")
def test_native_modules_refuse_other_interpreters_of_the_process_and_survive_them() -> None:
    script = """
        import sys
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters

        attempt = '''if True:
            try:
                import tickwheel
            except ImportError as error:
                assert "TICKWHEEL_PURE=1" in str(error), error
            else:
                raise AssertionError("it was loaded")
        '''

        def attempt_elsewhere():
            other = interpreters.create()
            # An error comes back as a value, or is raised.
            failed = (interpreters.exec if sys.version_info >= (3, 13) else interpreters.run_string)(other, attempt)
            assert failed is None, failed
            interpreters.destroy(other)

        attempt_elsewhere()
        import tickwheel
        from tickwheel.wheels import HierarchicalWheel
        wheel = HierarchicalWheel()
        timer = wheel.start(5, "payload")
        attempt_elsewhere()
        assert wheel.advance(5) == [timer]
        print(tickwheel.COMPILED)
    """
    assert run(script, "compiled").stdout == "True\n"
