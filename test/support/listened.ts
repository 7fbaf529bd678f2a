import { setImmediate as nextTurn } from 'node:timers/promises'

/** Lets eleven wait for a signal. Returns whether Node warned of a leak. */
export async function isCrowded(signal: AbortSignal): Promise<boolean> {
  let isWarned = false
  const hear = (warning: Error & { target?: unknown }): void => {
    if (warning.target === signal) isWarned = true
  }
  process.addListener('warning', hear)
  const ears = Array.from({ length: 11 }, () => () => {})
  for (const ear of ears) signal.addEventListener('abort', ear)
  await nextTurn()
  process.removeListener('warning', hear)
  for (const ear of ears) signal.removeEventListener('abort', ear)
  return isWarned
}
