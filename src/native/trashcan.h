/* Corrects three things that mypyc's native classes do when an object is freed. Every C file of ours includes it first.
 *
 * 1. Objects outside the garbage collector must not go through CPython's trashcan.
 *
 *    The trashcan puts off the freeing of deeply nested objects by threading them through their garbage collector
 *    headers. Timers have none (they are acyclic), yet mypyc frees them through it like any other object: a timer
 *    freed fifty levels deep would have the eight bytes before it overwritten.
 *
 * 2. Without a trashcan, a chain of timers, each the payload of the next, would be freed by recursion until the C stack
 *    is used up. So there is one of our own, for all native objects:
 *
 *        depth 1 --> 2 --> ... --> 25 --> ... --> 50      the 51st is put off: on a list, linked through the word
 *                                   |                     that held its reference count, which is 0
 *                                   +-- when the 25th is done, it frees what was put off: at depth 26, and so on
 *
 *    A frame beyond depth 25 leaves the list alone, so no chain needs more than 50 frames. The depth counts the frames
 *    of all threads, which take turns by the GIL: another thread that waits in a destructor can put a freeing off, never
 *    lead it astray.
 *
 *    What is put off goes through its tp_dealloc a second time. A native class that is acyclic must therefore have no
 *    __del__, which would run twice; the others remember that it ran.
 *
 * 3. Native classes take no weak references.
 *
 *    On Python 3.11, mypyc gives objects with a __dict__ (those with an interpreted base, such as ABC or MutableMapping) a
 *    list of weak references too, but does not clear it: a weak reference would lead to freed memory. Without the offset of
 *    that list Python refuses to make one, as it does for all other native objects and on later versions.
 *
 * tests/wheels/test_native.py and tests/wheels/test_memory.py crash without it.
 */
#include <CPy.h>

#include <string.h>

#define TICKWHEEL_DEPTH_MAX 50    /* as deep as CPython's own goes */
#define TICKWHEEL_DEPTH_RESUMED 25

static CPyThreadLocal struct {
    int depth;
    PyObject *put_off;
} tickwheel_freeing;

static inline int tickwheel_begin_free(PyObject *op, destructor dealloc)
{
    if (unlikely(tickwheel_freeing.depth >= TICKWHEEL_DEPTH_MAX) && Py_TYPE(op)->tp_dealloc == dealloc) {
        memcpy(op, &tickwheel_freeing.put_off, sizeof tickwheel_freeing.put_off);
        tickwheel_freeing.put_off = op;
        return 0;
    }
    tickwheel_freeing.depth++;
    return 1;
}

static void tickwheel_resume_free(void)
{
    while (tickwheel_freeing.put_off != NULL) {
        PyObject *op = tickwheel_freeing.put_off;
        const Py_ssize_t unreferenced = 0;
        memcpy(&tickwheel_freeing.put_off, op, sizeof tickwheel_freeing.put_off);
        memcpy(op, &unreferenced, sizeof unreferenced);
        Py_TYPE(op)->tp_dealloc(op);
    }
}

static inline void tickwheel_end_free(void)
{
    if (unlikely(tickwheel_freeing.put_off != NULL) && tickwheel_freeing.depth <= TICKWHEEL_DEPTH_RESUMED)
        tickwheel_resume_free();
    tickwheel_freeing.depth--;
}

#undef CPy_TRASHCAN_BEGIN
#undef CPy_TRASHCAN_END
#define CPy_TRASHCAN_BEGIN(op, dealloc) \
    do {                                \
        if (!tickwheel_begin_free((PyObject *)(op), (destructor)(dealloc))) break;
#define CPy_TRASHCAN_END(op) \
        tickwheel_end_free(); \
    } while (0);

static inline int tickwheel_ready(PyTypeObject *type)
{
    type->tp_weaklistoffset = 0;
    return PyType_Ready(type);
}

#define PyType_Ready(type) tickwheel_ready(type)
