/*
 * One deployment at a time in a directory, whatever paths lead there. Projects whose targets overlap are refused when
 * they are made, but a link can make two targets one at any time later. So each turn looks up where its target lies, and
 * waits for those who work in that directory, within it, or above it, in the order of arrival.
 *
 * A holder has one place at most, and gives it up before it waits for another, so nobody waits in a circle.
 */
import { areOverlapping, lineageOf, type Lineage } from '../target/lineage.js'

export interface TargetLocks {
  /**
   * Waits until nobody else works where the target lies now; answers its real path. One that holds a place already and
   * finds that its target leads elsewhere by now changes places. `onWait` is told whom it waits for, and where that one
   * works. An abort rejects with the signal's reason; then nothing is held.
   */
  hold(holder: string, target: string, options: HoldOptions): Promise<string>
  /** Lets the next ones in; harmless when nothing is held. */
  release(holder: string): void
  isHeld(holder: string): boolean
}

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

export function createTargetLocks(): TargetLocks {
  /** In the order of arrival; who waits is among them. */
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

  /** One that came earlier and is in the way. */
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
      // Looked up again: after a wait it may lead elsewhere.
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

/** A look at a file system that does not answer must not hold up a cancel. */
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
