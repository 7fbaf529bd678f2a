import type { Answer, CrashClient } from './crash-client.js'
import type { Model } from './crash-model.js'
import type { Random } from './random.js'

/** The directories of a crash run. */
export interface CrashPlaces {
  home: string
  sites: string
  /** Files that scripts create to prove that they ran. */
  proofs: string
  temporary: string
}

export interface LoadNeeds {
  client: CrashClient
  model: Model
  places: CrashPlaces
  random: Random
  /** Returns a number that was never used before. */
  next(): number
  /** The user of a project, or null if no other user is available. */
  runAs: string | null
  /** The directory of the disk that fills up; requests may be refused because of it. Null if there is none. */
  disk: string | null
  /** Whether the server was killed: from then on requests may fail. */
  isOver(): boolean
  /** Reports a point after which a kill is interesting. */
  reached(point: string): void
  /** Reports an answer that no honest client should get. */
  complain(sentence: string): void
  /** Reports an acknowledged write. */
  acknowledged(): void
}

/** A writer that runs in a loop. */
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
