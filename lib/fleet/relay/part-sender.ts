/*
 * Sends the answer to a relayed request to the hub in parts. What arrives while a part is on its way goes into the next
 * one, so a slow way makes larger parts, and a fast one small delays.
 */
import { pause } from '../../base/pause.js'
import { Refusal } from '../../base/errors.js'
import { relayPartBytes } from '../../model/fleet-wire.js'

/** Sends one part. Refuses what the hub refuses. */
export type SendPart = (part: { number: number; isLast: boolean; bytes: Buffer }) => Promise<unknown>

/** Sends an answer. */
export interface PartSender {
  /** Adds bytes. Resolves when more may be added. Rejects if the hub does not want the answer. */
  write(bytes: Buffer): Promise<void>
  /** Sends the rest. Resolves when the hub has everything. */
  end(): Promise<void>
}

/** Time in which more bytes join the first part, so that a short answer is one part. */
const gatherMs = 5
const retriesMs = [250, 500, 1000, 2000, 4000]

/** Creates a sender. It stops when the signal aborts. */
export function createPartSender(send: SendPart, signal: AbortSignal): PartSender {
  let pending: Buffer[] = []
  let size = 0
  let number = 0
  let hasEnded = false
  let isComplete = false
  let sending: Promise<void> | null = null
  let failure: unknown = null
  let room = (): void => {}

  function take(): Buffer {
    const all = Buffer.concat(pending)
    const part = all.subarray(0, relayPartBytes)
    const rest = all.subarray(relayPartBytes)
    pending = rest.length > 0 ? [rest] : []
    size = rest.length
    return part
  }

  async function sendOne(bytes: Buffer, isLast: boolean): Promise<void> {
    const part = { number: ++number, isLast, bytes }
    for (let attempt = 0; ; attempt++) {
      try {
        await send(part)
        return
      } catch (error) {
        signal.throwIfAborted()
        const isSlow = error instanceof Refusal && error.code === 'relay_full'
        const isFinal = error instanceof Refusal && error.kind !== 'unavailable' && !isSlow
        if (isFinal || (!isSlow && attempt >= retriesMs.length)) throw error
        await pause(retriesMs[isSlow ? 0 : attempt] as number, signal)
      }
    }
  }

  async function sendAll(): Promise<void> {
    await pause(number === 0 ? gatherMs : 0, signal)
    while (size > 0) {
      const bytes = take()
      const isLast = hasEnded && size === 0
      room()
      isComplete = isLast
      await sendOne(bytes, isLast)
    }
    if (!hasEnded || isComplete) return
    isComplete = true
    await sendOne(Buffer.alloc(0), true)
  }

  function start(): Promise<void> {
    sending ??= sendAll().then(
      () => {
        sending = null
      },
      (error: unknown) => {
        failure = error
        room()
      }
    )
    return sending
  }

  return {
    async write(bytes) {
      if (failure !== null) throw failure
      signal.throwIfAborted()
      pending.push(bytes)
      size += bytes.length
      void start()
      if (size >= relayPartBytes) await new Promise<void>(resolve => (room = resolve))
      if (failure !== null) throw failure
    },
    async end() {
      hasEnded = true
      await sending
      if (failure === null && !isComplete) await start()
      if (failure !== null) throw failure
    }
  }
}
