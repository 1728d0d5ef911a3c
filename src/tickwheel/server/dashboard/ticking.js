// Doing things again and again, but not while nobody looks.

// Do something now and then every so many milliseconds after it is done; returns how to stop. Hidden pages wait.
export function every(pauseMs, act) {
  let timer = null;
  let stopped = false;
  let busy = false;

  async function turn() {
    clearTimeout(timer);
    if (stopped || busy || document.hidden) return;
    busy = true;
    try {
      await act();
    } finally {
      busy = false;
      if (!stopped) timer = setTimeout(turn, pauseMs);
    }
  }

  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turn);
  };
}

// A function that does something at most once in so many milliseconds, however often it is called.
export function atMostEvery(pauseMs, act) {
  let timer = null;
  let last = -Infinity;
  const soon = () => {
    if (timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      act();
    }, Math.max(0, last + pauseMs - performance.now()));
  };
  soon.stop = () => {
    clearTimeout(timer);
    timer = null;
  };
  return soon;
}

// A function that does something once it has not been called for so many milliseconds.
export function afterQuiet(pauseMs, act) {
  let timer = null;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...values), pauseMs);
  };
  later.stop = () => clearTimeout(timer);
  return later;
}
