/* Keeps native timers out of CPython's trashcan.
 *
 * The trashcan puts off the freeing of deeply nested objects by threading them through their garbage
 * collector headers. Timers have none (they are acyclic), yet mypyc frees them through it like any
 * other object: a timer freed fifty levels deep would have the eight bytes before it overwritten.
 * tests/wheels/test_memory.py frees such a chain.
 *
 * Without a trashcan a chain of timers, each the payload of the next, would be freed by recursion; any
 * other object in between brings a trashcan of its own.
 */
#include <CPy.h>

#undef CPy_TRASHCAN_BEGIN
#undef CPy_TRASHCAN_END
#define CPy_TRASHCAN_BEGIN(op, dealloc) do {
#define CPy_TRASHCAN_END(op) } while (0);
