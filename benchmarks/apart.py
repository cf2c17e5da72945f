"""Measuring in a process of its own, so that memory, caches and threads are its own."""

import sys
from collections.abc import Callable
from multiprocessing import get_context


def apart(work: Callable[..., None], *arguments: object) -> object:
    """Return what ``work`` sends.

    Args:
        work: Is called with the arguments and a ``Connection``, into which it sends one value.
        arguments: For it.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*arguments, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        sys.exit("the measured process failed: see above")
    finally:
        process.join()
