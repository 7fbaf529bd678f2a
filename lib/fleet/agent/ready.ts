/* Fetches and checks the release of a duty, again and again while the hub cannot be reached. */
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf, Refusal } from '../../base/errors.js'
import type { Release } from './releases.js'

/** Waits between attempts, in ms. The last one is repeated. */
export const defaultRetriesMs: readonly number[] = [500, 1000, 2000, 5000, 10_000]

/** Returns the wait after an attempt; the first one is 0. */
export function waitAfter(attempt: number, retriesMs: readonly number[]): number {
  return retriesMs[Math.min(attempt, retriesMs.length - 1)] as number
}

/** How a release is made ready. */
export interface ReadyOptions {
  prepare(signal: AbortSignal): Promise<Release>
  retriesMs: readonly number[]
  /** Called when the first attempt has failed. */
  failed(reason: string): void
  signal: AbortSignal
}

/** Returns a release that is ready, or the refusal that another attempt would not cure. */
export async function makeReady({
  prepare,
  retriesMs,
  failed,
  signal
}: ReadyOptions): Promise<Release | Refusal | 'given up'> {
  let hadWrongDigest = false
  for (let attempt = 0; ; attempt++) {
    try {
      return await prepare(signal)
    } catch (error) {
      if (signal.aborted) return 'given up'
      const isFirstDamage = error instanceof Refusal && error.code === 'wrong_digest' && !hadWrongDigest
      if (isFirstDamage) hadWrongDigest = true
      else if (isFinal(error)) return error
      else if (attempt === 0) failed(reasonOf(error))
      await sleep(waitAfter(attempt, retriesMs), undefined, { signal }).catch(() => {})
      if (signal.aborted) return 'given up'
    }
  }
}

function isFinal(error: unknown): error is Refusal {
  return error instanceof Refusal && (error.kind !== 'unavailable' || ownRefusals.has(error.code))
}

/** Refusals of this machine, not of the network. */
const ownRefusals: ReadonlySet<string> = new Set(['no_space', 'not_permitted', 'disk_full', 'variables_key'])
