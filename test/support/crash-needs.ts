import type { Answer, CrashClient } from './crash-client.js'
import type { Model } from './crash-model.js'
import type { Random } from './random.js'

/** Where a crash run has its files. */
export interface CrashPlaces {
  home: string
  sites: string
  /** What scripts leave behind, to tell that they ran. */
  proofs: string
  temporary: string
}

export interface LoadNeeds {
  client: CrashClient
  model: Model
  places: CrashPlaces
  random: Random
  /** A number that nobody had before. */
  next(): number
  /** The user of a project, or null if no other user is available. */
  runAs: string | null
  /** The directory of a disk that fills up, where honest requests may be refused for it; null: none does. */
  disk: string | null
  /** Whether the server was killed: from then on nothing need be answered. */
  isOver(): boolean
  /** Something has come to the point where a kill may be of interest. */
  reached(point: string): void
  /** An answer that no honest client should get. */
  complain(sentence: string): void
  /** A write was acknowledged. */
  acknowledged(): void
}

/** One who writes, again and again. */
export type Writer = (needs: LoadNeeds) => Promise<void>

/**
 * Whether it is a 200. Everything else but what `refusals` names is complained about, unless the server was killed, or
 * its disk may be full.
 */
export function isGood(
  needs: LoadNeeds,
  what: string,
  answer: Answer | null,
  refusals: readonly number[] = []
): answer is Answer {
  if (answer?.status === 200) {
    needs.acknowledged()
    return true
  }
  if (answer === null && !needs.isOver()) needs.complain(`${what}: no answer from a server that runs`)
  const mayRefuse = answer?.status === 503 && (needs.isOver() || needs.disk !== null)
  if (answer !== null && !mayRefuse && !refusals.includes(answer.status))
    needs.complain(`${what}: ${answer.status} ${answer.text.slice(0, 300)}`)
  return false
}
