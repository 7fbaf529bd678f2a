import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Resolves after `ms`. An abort rejects at once, with the reason of the signal: Node's own timer rejects with an
 * AbortError, which callers that ask for that reason do not recognize.
 */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal === undefined) return sleep(ms)
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
}
