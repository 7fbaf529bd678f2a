/**
 * Runs `use` with a signal that aborts with the first of some signals, or after `withinMs`, with its reason. Afterwards
 * nothing listens any more: `AbortSignal.any` does not exist before Node 18.17, and on a signal that lives as long as
 * the process it keeps every result (Node 20).
 */
export async function withAnySignal<T>(
  { signals, withinMs }: { signals: readonly AbortSignal[]; withinMs?: number },
  use: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const own = new AbortController()
  const abort = ({ target }: { target: EventTarget | null }): void => own.abort((target as AbortSignal).reason)
  for (const signal of signals) {
    if (signal.aborted) abort({ target: signal })
    signal.addEventListener('abort', abort)
  }
  const late = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
  const timer = withinMs === undefined ? undefined : setTimeout(() => own.abort(late), withinMs)
  try {
    return await use(own.signal)
  } finally {
    clearTimeout(timer)
    for (const signal of signals) signal.removeEventListener('abort', abort)
  }
}
