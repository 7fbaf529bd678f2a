/*
 * Keeps the stream from the hub open (`GET /api/agent/desired`), and passes its lines on. A line that is not one of the hub
 * in its place ends the stream.
 *
 * STATES     connecting   a request is on its way
 *            open         lines arrive; the hub sends one at least every 15 s, and after 45 s of silence it is left
 *            waiting      after a stream that was open: up to 10 s, so that a hub that starts again is not flooded; after
 *                         attempts that failed: longer each time
 *
 * Each attempt after a failure goes to the next address of a hub.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf, Refusal } from '../../base/errors.js'
import { silentAfterMs, type DesiredLine } from '../../model/fleet-wire.js'
import { createLineReader } from '../../shared/lines.js'
import type { HubClient } from './hub-client.js'
import { createStreamReader, type Keyring } from './from-hub.js'

/** The waits of a connection, in milliseconds. Tests shorten them. */
export interface ConnectionWaits {
  /** Maximum wait after a stream that was open. */
  jitterMs: number
  /** Wait after the first attempt that failed; it doubles with each further one. */
  firstMs: number
  longestMs: number
  /** Time without a line after which the stream is left. */
  silentMs: number
}

/** The default waits. */
export const defaultWaits: ConnectionWaits = {
  jitterMs: 10_000,
  firstMs: 1000,
  longestMs: 30_000,
  silentMs: silentAfterMs
}

/** Dependencies of the connection. */
export interface ConnectionNeeds {
  client: Pick<HubClient, 'open' | 'moveOn' | 'address'>
  keyring: Keyring
  /** Names this start of the agent: a copy of its data directory has another one. */
  instance: string
  /** Takes a line. */
  take(line: DesiredLine): void
  /** Called when a stream is open, and when it has ended. */
  onOpen(): void
  onEnd(): void
  /** Returns a number from 0 to 1. */
  random(): number
  waits?: Partial<ConnectionWaits>
  info(line: string): void
  warn(line: string): void
}

/** Characters of a line; a longer one is not a line of a hub. */
const maxLineLength = 512 * 1024

/** Keeps the stream open until the signal aborts. Never rejects. */
export async function keepConnected(needs: ConnectionNeeds, signal: AbortSignal): Promise<void> {
  const { client, random, info, warn } = needs
  const waits = { ...defaultWaits, ...needs.waits }
  let failed = 0
  let lastWarning = ''
  while (!signal.aborted) {
    let wasOpen = false
    const why = await follow(needs, { silentMs: waits.silentMs, signal }, () => {
      wasOpen = true
      failed = 0
      lastWarning = ''
      info(`Connected to the hub ${client.address()}`)
    }).then(
      () => 'the hub ended the stream',
      (error: unknown) => reasonOf(error)
    )
    if (signal.aborted) return
    const warning = `${wasOpen ? 'The connection to the hub was lost' : 'Cannot connect to the hub'}: ${why}`
    if (warning !== lastWarning) warn(warning)
    lastWarning = warning
    client.moveOn()
    const ms = wasOpen
      ? random() * waits.jitterMs
      : (0.5 + random() / 2) * Math.min(waits.longestMs, waits.firstMs * 2 ** Math.min(failed++, 20))
    await sleep(ms, undefined, { signal }).catch(() => {})
  }
}

async function follow(
  { client, keyring, instance, take, onOpen, onEnd }: ConnectionNeeds,
  { silentMs, signal }: { silentMs: number; signal: AbortSignal },
  opened: () => void
): Promise<void> {
  const { answer, asked } = await client.open({
    method: 'GET',
    path: `/api/agent/desired?instance=${instance}`,
    signal
  })
  answer.setTimeout(silentMs, () => answer.destroy(new Error(`it was silent for ${silentMs / 1000} s`)))
  let isOpen = false
  const read = createStreamReader({ asked, keyring, nowMs: () => performance.now() })
  const reader = createLineReader(
    text => {
      const line = read(text)
      if (!isOpen) {
        isOpen = true
        opened()
        onOpen()
      }
      if (line !== null) take(line)
    },
    { maxLength: maxLineLength }
  )
  const decoder = new TextDecoder()
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) reader.push(decoder.decode(chunk, { stream: true }))
  } catch (error) {
    throw signal.aborted || error instanceof Refusal
      ? error
      : new Refusal('unavailable', 'stream_broken', reasonOf(error))
  } finally {
    answer.destroy()
    if (isOpen) onEnd()
  }
}
