/*
 * Locks on target directories: one deployment at a time per directory, whatever path leads there. Projects with
 * overlapping targets are refused when they are created, but a symbolic link can make two targets overlap later. So
 * each deployment resolves its target when it starts. It waits for earlier holders of that directory, of one below it,
 * or of one above it, in order of arrival.
 *
 * A holder has at most one lock and releases it before it waits for another, so there is no deadlock.
 */
import { areOverlapping, lineageOf, type Lineage } from '../install/lineage.js'

/** The locks of one server. */
export interface TargetLocks {
  /**
   * Waits until no other holder uses the directory that `target` resolves to, then returns its real path. If the holder
   * already has a lock but the target now resolves elsewhere, the lock moves. `onWait` is called with the holder in the
   * way and its directory. An abort rejects with the signal's reason and releases the lock.
   */
  hold(holder: string, target: string, options: HoldOptions): Promise<string>
  /** Releases the lock of a holder and wakes the next ones. Does nothing if there is no lock. */
  release(holder: string): void
  isHeld(holder: string): boolean
}

/** Options of `hold`. */
export interface HoldOptions {
  signal: AbortSignal
  onWait?: (forWhom: string, real: string) => void
}

interface Place {
  holder: string
  lineage: Lineage
  gone: Promise<void>
  leave(): void
}

/** Creates an empty set of locks. */
export function createTargetLocks(): TargetLocks {
  /** Holders and waiters, in order of arrival. */
  const places: Place[] = []
  const placeOf = (holder: string): Place | undefined => places.find(place => place.holder === holder)

  function enter(holder: string, lineage: Lineage): Place {
    let leave = (): void => {}
    const gone = new Promise<void>(resolve => (leave = resolve))
    const place = { holder, lineage, gone, leave }
    places.push(place)
    return place
  }

  function release(holder: string): void {
    const index = places.findIndex(place => place.holder === holder)
    if (index !== -1) places.splice(index, 1)[0]?.leave()
  }

  /** Returns an earlier place that overlaps with this one. */
  function findBefore(own: Place): Place | undefined {
    return places.slice(0, places.indexOf(own)).find(({ lineage }) => areOverlapping(lineage, own.lineage))
  }

  async function hold(holder: string, target: string, { signal, onWait }: HoldOptions): Promise<string> {
    for (;;) {
      const lineage = await unlessAborted(lineageOf(target), signal)
      if (placeOf(holder)?.lineage.real === lineage.real) return lineage.real
      release(holder)
      const own = enter(holder, lineage)
      let other = findBefore(own)
      if (other === undefined) return lineage.real
      for (; other !== undefined; other = findBefore(own)) {
        onWait?.(other.holder, other.lineage.real)
        await unlessAborted(other.gone, signal)
      }
      // Resolve again: the target may lead elsewhere after a wait.
    }
  }

  return {
    async hold(holder, target, options) {
      try {
        return await hold(holder, target, options)
      } catch (error) {
        release(holder)
        throw error
      }
    },
    release,
    isHeld: holder => placeOf(holder) !== undefined
  }
}

/** Rejects as soon as the signal aborts: a file system that does not respond must not delay a cancellation. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let giveUp = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason as Error)
    signal.addEventListener('abort', giveUp)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}
