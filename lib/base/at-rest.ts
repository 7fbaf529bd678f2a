import { memoryUsage } from 'node:process'

/** Time between two looks at how much was done. */
const lookMs = 30_000
/** So few calls between two looks are rest: a panel that asks now and then, a probe. */
const restfulCalls = 30
/** Less is not worth a collection, which stops everything for a tenth of a second. */
const worthBytes = 16e6

interface RestOptions {
  ms?: number
  collect?: () => Promise<void>
  rssBytes?: () => number
}

/**
 * Returns a function to call after each piece of work. V8 collects when it allocates, so a server that has nothing to do
 * would keep for hours what its last busy minute left. When work has become rare, everything is collected once, if memory
 * has grown since the last time. Keeps nothing alive, and sets no timer at rest.
 */
export function createRest({
  ms = lookMs,
  collect = collectGarbage,
  rssBytes = memoryUsage.rss
}: RestOptions = {}): () => void {
  let calls = 0
  let timer: NodeJS.Timeout | null = null
  let keptBytes = rssBytes()

  const wait = (): void => void (timer = setTimeout(() => void look(), ms).unref())

  async function look(): Promise<void> {
    const isBusy = calls > restfulCalls
    calls = 0
    if (isBusy) return wait()
    timer = null
    if (rssBytes() < keptBytes + worthBytes) return
    await collect()
    keptBytes = rssBytes()
  }

  return () => {
    calls++
    if (timer === null) wait()
  }
}

/** Collects all garbage of this thread, and gives free pages back to the system. A Node without an inspector cannot. */
export async function collectGarbage(): Promise<void> {
  try {
    const { Session } = await import('node:inspector')
    const session = new Session()
    session.connect()
    await new Promise<void>(resolve => session.post('HeapProfiler.collectGarbage', () => resolve()))
    session.disconnect()
  } catch {
    // Then V8 collects when it allocates again.
  }
}
