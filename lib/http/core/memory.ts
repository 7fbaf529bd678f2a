/*
 * The memory that requests may take: bodies that are read whole, answers that their clients have not read yet, and the
 * buffers of streams. A request takes its place before the first byte, and gives it back when its reply has been sent
 * or its client has left. What a caller sends and does not read is limited by its own part, so that the others go on.
 */
import { type Budget, createBudget } from '../../base/budget.js'
import { Refusal } from '../../base/errors.js'

/** Maximum number of bytes that all requests hold. */
const totalBytes = 192 * 1024 * 1024
/** Maximum number of bytes that the requests of one caller hold. */
const callerBytes = 64 * 1024 * 1024
/** What a stream holds while it runs, if it does not say more: the block that waits for its client. */
export const streamBytes = 64 * 1024
/** An answer up to this size counts only if its client does not read it. */
export const smallAnswerBytes = 16 * 1024

export interface MemoryLimits {
  totalBytes: number
  callerBytes: number
}

/** Creates the budget of a server. Refuses: 429 `too_much_at_once`, 503 `server_full`. */
export function createMemory(limits: MemoryLimits = { totalBytes, callerBytes }): Budget {
  return createBudget({ all: limits.totalBytes, each: { caller: limits.callerBytes }, refuse: tooMuch })
}

/** The refusals of every budget for what requests hold. */
export function tooMuch(over: 'caller' | 'all'): Refusal {
  const retry = { retryAfterSeconds: 5 }
  if (over === 'all') {
    const sentence = 'The server holds as much data of requests as it may. Try again in a moment'
    return new Refusal('unavailable', 'server_full', sentence, retry)
  }
  const sentence = 'Your requests hold as much data as one caller may. Let some of them end, and try again'
  return new Refusal('too_many', 'too_much_at_once', sentence, retry)
}
