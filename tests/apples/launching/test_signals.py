"""Signals as messages: in the main thread, in another, and ignored ones."""

from __future__ import annotations

import os
import select
import signal
import threading

from apples.hosts.kernel import FORWARDED, SignalQueue


def test_signals_are_received_in_order_and_handlers_put_back() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with SignalQueue(FORWARDED) as inbox:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGINT)
        assert select.select([inbox], [], [], 5)[0] == [inbox]
        taken = inbox.take()
        assert taken == [signal.SIGUSR1, signal.SIGINT]
        assert inbox.take() == []
    assert signal.getsignal(signal.SIGUSR1) is before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalQueue(FORWARDED) as inbox:
            os.kill(os.getpid(), signal.SIGHUP)
            assert inbox.take() == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_installs_nothing_but_can_be_posted_to() -> None:
    taken: list[signal.Signals] = []
    before = signal.getsignal(signal.SIGINT)

    def work() -> None:
        with SignalQueue(FORWARDED) as inbox:
            assert signal.getsignal(signal.SIGINT) is before
            inbox.post(signal.SIGTERM)
            taken.extend(inbox.take())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert taken == [signal.SIGTERM]
