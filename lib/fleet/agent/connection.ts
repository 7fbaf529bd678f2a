/*
 * Keeps the stream from the hub open (`GET /api/agent/desired`), and passes its lines on.
 *
 * STATES     connecting   a request is on its way
 *            open         lines arrive; the hub sends one at least every 15 s, and after 45 s of silence it is left
 *            waiting      after a stream that was open: up to 10 s, so that a hub that starts again is not flooded; after
 *                         attempts that failed: longer each time
 *
 * Each attempt after a failure goes to the next address of a hub.
 */
import type { KeyObject } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '../../base/refusal.js'
import { reasonOf } from '../../base/system-error.js'
import { silentAfterMs, type DesiredLine } from '../../model/fleet-wire.js'
import { createLineReader } from '../../shared/lines.js'
import type { HubClient } from './hub-client.js'
import { isGenuine, parseLine } from './hub-line.js'

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
  nodeId: string
  client: Pick<HubClient, 'open' | 'moveOn' | 'address'>
  /** The key of the hub now. */
  hubKey(): KeyObject
  /** Takes a line whose signature is right. `session` is that of the stream. */
  take(line: DesiredLine, session: string): void
  /** Called when a stream is open, and when it has ended. */
  onOpen(session: string): void
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
  { nodeId, client, hubKey, take, onOpen, onEnd, warn }: ConnectionNeeds,
  { silentMs, signal }: { silentMs: number; signal: AbortSignal },
  opened: () => void
): Promise<void> {
  const { answer, session } = await client.open({ method: 'GET', path: '/api/agent/desired', signal })
  answer.setTimeout(silentMs, () => answer.destroy(new Error(`it was silent for ${silentMs / 1000} s`)))
  let isOpen = false
  const reader = createLineReader(
    text => {
      const line = text === '' ? null : parseLine(text)
      if (line === null) return
      if (!isOpen) {
        isOpen = true
        opened()
        onOpen(session)
      }
      if (isGenuine(line, { nodeId, session, hubKey: hubKey() })) take(line, session)
      else if (line.type !== 'key') warn(`Ignored a line of the hub (${line.type}): its signature is not valid`)
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
