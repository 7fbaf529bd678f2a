import { countOf } from '../../base/text.js'
import { pause } from '../../base/pause.js'
import { Refusal } from '../../base/errors.js'
import { aheadSentence } from '../../model/rollout.js'
import type { UploadPermit } from '../../model/upload-permit.js'
import { humanDuration } from '../terminal/units.js'

const pollMs = 5000
/** Clients that began to wait together spread their requests by this time in both directions. */
const spreadMs = 1000

/** Dependencies of `waitUntilFree`. Tests replace the time. */
export interface Waiting {
  /** Asks the server whether it would accept the upload, as `checkBeforePacking` does. */
  check(): Promise<UploadPermit | null>
  limitMs: number
  signal: AbortSignal
  /** Prints a change of what the push waits for. */
  note(line: string): void
  sleep?(ms: number, signal: AbortSignal): Promise<unknown>
  now?(): number
}

/**
 * Waits until the project is not locked and no other deployment is queued or running. Returns the answer of `check`.
 * Throws the refusal of the lock, or `still_busy`, after the time limit, any other refusal at once, and the reason of
 * the signal.
 */
export async function waitUntilFree({ check, limitMs, signal, note, sleep = pause, now = Date.now }: Waiting) {
  const startedMs = now()
  for (let last = ''; ; ) {
    const answer = await check().catch((error: unknown) => {
      if (error instanceof Refusal && error.code === 'locked') return error
      throw error
    })
    if (!(answer instanceof Refusal) && !answer?.deploymentsAhead) return answer
    const leftMs = limitMs - (now() - startedMs)
    if (leftMs <= 0) throw answer instanceof Refusal ? answer : stillBusy(answer?.deploymentsAhead ?? 0, limitMs)
    const reason = answer instanceof Refusal ? answer.message : reasonOf(answer)
    if (reason !== last) note(`Waiting: ${reason}`)
    last = reason
    await sleep(Math.min(leftMs, pollMs + (2 * Math.random() - 1) * spreadMs), signal)
  }
}

function reasonOf(answer: UploadPermit | null): string {
  const ahead = answer?.rolloutAhead
  return sentenceOf(answer?.deploymentsAhead ?? 0) + (ahead === undefined ? '' : `: ${aheadSentence(ahead)}`)
}

function sentenceOf(ahead: number): string {
  return `${countOf(ahead, 'deployment')} of this project ahead`
}

function stillBusy(ahead: number, limitMs: number): Refusal {
  const sentence = `Nothing was sent: after ${humanDuration(limitMs)} there is still ${sentenceOf(ahead)}. Push again later`
  return new Refusal('timed_out', 'still_busy', sentence)
}
