/*
 * The redo log on etcd. A line is one key, by the number of its first transaction.
 *
 * An append is one transaction of etcd: the leader must still be the one that this hub became (its key has the same
 * create revision), the line must not exist, and the one before must be as this hub knows it (the same mod revision; in
 * an empty log, that of the history). So two hubs never both write a number, however long one of them slept and
 * whatever their clocks say, and no line follows a hole, if etcd goes back to a snapshot in which this hub leads. The
 * transaction may be carried out twice: if the line exists and is this one, it was accepted the first time. If no
 * member answers in time, or one refuses after another one did not answer, the outcome is unknown, and the hub stops
 * leading. That holds also if this hub leads no more: etcd may have gone back meanwhile, and other hubs may have the line.
 *
 * etcd may be restored from an older snapshot, and then grow past the number that a hub has. Each value is sealed with
 * a random nonce, so its tag tells two lines of the same number apart: the log remembers the tag of a line that was
 * appended or taken, and compares it with the one in etcd each time it begins to read.
 */

import {
  DamagedLog,
  decodeLine,
  DivergedLog,
  encodeLine,
  type FollowOptions,
  type LogLine,
  LostLeadership,
  LostLine,
  OlderLog,
  type RedoLog,
  Trimmed,
  UnknownOutcome
} from '../core/store/redo.js'
import { EtcdError, Unreachable } from './etcd/connection.js'
import { endOfPrefix, type EtcdClient, type KeyValue } from './etcd/client.js'
import { openHistory, type Rekeyed, rekeyLog, sealHistory } from './history.js'
import { type ClusterKeys, type Sealing, tagBytes } from './sealing.js'
import { createTurns, pause } from './signals.js'

/** A line that a hub has applied, and the tag of its value in etcd. */
export interface SeenLine {
  /** The number of its last transaction. */
  sequence: number
  tag: string
}

export interface EtcdLogNeeds {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  /** The id of the log. */
  history: string
  /** The last line that the database surely has; null: it is not known. */
  seen?: SeenLine | null
  /** The create revision of the leader's key while this hub leads; null while it does not. */
  leading: () => number | null
  /**
   * Called with the leader's key (null: there is none) as of a revision of etcd: when the log was read to its end, and
   * with each change while it is followed.
   */
  onLeader?: (found: KeyValue | null, asOf: number) => void
}

/** After this time, writers are told that the outcome is unknown. */
const appendMs = 7000
/** Lines that are read at once: a page has at most 24 MiB. */
const pageLines = 32
/** Pause after an error of etcd while the log is followed. */
const pauseMs = 250

interface Put {
  key: string
  value: Buffer
  revision: number
  onUnanswered: () => void
}

interface Page {
  /** The revision of etcd at that moment. */
  revision: number
  lines: KeyValue[]
  isLast: boolean
  begun: KeyValue | undefined
  leader: KeyValue | undefined
  /** The line in which the last transaction that was seen must be. */
  last: KeyValue | undefined
}

/** The redo log on etcd. It sends nothing before it is used. `follow` and `catchUp` throw `DivergedLog`. */
export class EtcdLog implements RedoLog {
  readonly #needs: EtcdLogNeeds
  readonly #values: LineValues
  readonly #turns = createTurns()
  #seen: SeenLine | null
  /** The last line as it is in etcd, or the history of an empty log; null before the log was read. */
  #end: Pick<KeyValue, 'key' | 'modRevision'> | null = null

  constructor(needs: EtcdLogNeeds) {
    this.#needs = needs
    this.#values = createLineValues({ ...needs, writeMs: appendMs })
    this.#seen = needs.seen ?? null
  }

  /** The last line that was appended or taken; null: none. */
  get seen(): SeenLine | null {
    return this.#seen
  }

  /** The key of the last line that was appended or taken, or of the history of an empty log; null before the log was read. */
  get endKey(): string | null {
    return this.#end?.key ?? null
  }

  /** Forgets the last line: the database was replaced. */
  forget(): void {
    this.#seen = null
  }

  async append(first: number, transactions: string[]): Promise<void> {
    const { leading, keys, client } = this.#needs
    const revision = leading()
    if (revision === null) throw new LostLeadership()
    const key = keys.line(first)
    const value = await this.#values.seal(first, transactions, revision)
    let isUnanswered = false
    const onUnanswered = (): void => void (isUnanswered = true)
    const modRevision = await this.#put({ key, value, revision, onUnanswered }).catch(async (error: unknown) => {
      const isLost = error instanceof LostLeadership || error instanceof LostLine
      if (error instanceof Unreachable || (isLost && isUnanswered)) throw new UnknownOutcome(error)
      if (!(error instanceof EtcdError)) throw error
      const written = await findLine(client, key, value).catch((cause: unknown) => {
        throw new UnknownOutcome(cause)
      })
      if (written === undefined) throw isUnanswered ? new UnknownOutcome(error) : error
      return written.modRevision
    })
    this.#end = { key, modRevision }
    this.#seen = { sequence: first + transactions.length - 1, tag: tagOf(value) }
  }

  /** Hands over the transactions after number `after` that are in the log now. Returns the number of the last one. */
  async catchUp(after: number, options: FollowOptions): Promise<number> {
    return (await this.#readOn(after, options)).at
  }

  async follow(after: number, { take, signal }: FollowOptions): Promise<void> {
    const { client, keys, sealing, history } = this.#needs
    let at = after
    while (!signal.aborted) {
      try {
        const read = await this.#readOn(at, {
          signal,
          async take(line) {
            await take(line)
            at = line.first + line.transactions.length - 1
          }
        })
        await client.watch(
          { key: keys.leader, end: endOfPrefix(keys.log), from: read.revision + 1 },
          {
            signal,
            take: async events => {
              for (const event of events) {
                if (event.key === keys.leader) {
                  if (!event.isDeleted) sealing.adopt(event.value, { key: keys.leader, history })
                  this.#needs.onLeader?.(event.isDeleted ? null : event, event.modRevision)
                } else if (!event.isDeleted) {
                  // A line that this hub already has is a new one: then etcd went back, which the next reading tells.
                  if (keys.numberOf(event.key) <= at) throw new Gap()
                  const line = await this.#values.open(event)
                  if (line.first !== at + 1) throw new Gap()
                  if (signal.aborted) return
                  at = await this.#hand(line, event, take)
                }
              }
            }
          }
        )
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof Gap || (error instanceof EtcdError && error.isCompacted)) continue
        if (!isOfConnection(error)) throw error
        await pause(pauseMs, signal)
      }
    }
  }

  /**
   * Replaces the key of the cluster, while no line is appended: `after` is the number of the last write. Throws
   * `LostLeadership`, `UnknownOutcome` (history.ts).
   */
  rekey(after: number, given: Pick<Rekeyed, 'key' | 'holders'>): Promise<void> {
    const { leading, keys, client } = this.#needs
    return this.#turns(async () => {
      const revision = leading()
      if (revision === null || this.#end === null) throw new LostLeadership()
      const modRevision = await rekeyLog(this.#needs, { ...given, revision, end: this.#end, after })
      this.#end = { key: keys.history, modRevision }
      await compact(client, modRevision)
    })
  }

  trim(upTo: number): Promise<void> {
    return this.#turns(() => this.#trim(upTo))
  }

  /** Reads the line that contains `at + 1` or ends before it, the ones after it, and what the log says of itself. */
  async #readPage(at: number, signal: AbortSignal): Promise<Page> {
    const { client, keys } = this.#needs
    const { revision, ranges } = await client.transact(
      {
        when: [],
        then: [
          { range: { key: keys.log, end: keys.line(at + 2), limit: 1, isDescending: true } },
          { range: { key: keys.line(at + 2), end: endOfPrefix(keys.log), limit: pageLines } },
          { range: { key: keys.history } },
          { range: { key: keys.leader } },
          { range: { key: keys.log, end: keys.line((this.#seen?.sequence ?? 0) + 1), limit: 1, isDescending: true } }
        ]
      },
      { signal }
    )
    const [before = [], after = [], begun = [], leader = [], last = []] = ranges
    return {
      revision,
      lines: [...before, ...after],
      isLast: after.length < pageLines,
      begun: begun[0],
      leader: leader[0],
      last: last[0]
    }
  }

  /** Throws if the log has another line where the last one was seen. A line that was trimmed proves nothing. */
  async #checkSeen({ last }: Page): Promise<void> {
    if (this.#seen === null || last === undefined || tagOf(last.value) === this.#seen.tag) return
    const { first, transactions } = await this.#values.open(last)
    if (first + transactions.length > this.#seen.sequence) throw new DivergedLog(this.#seen.sequence)
  }

  /** Hands a line over, and remembers it. */
  async #hand(line: LogLine, value: KeyValue, take: FollowOptions['take']): Promise<number> {
    await take(line)
    const sequence = line.first + line.transactions.length - 1
    this.#seen = { sequence, tag: tagOf(value.value) }
    this.#end = value
    return sequence
  }

  /** Puts a line into the log. Returns the revision of it. */
  async #put({ key, value, revision, onUnanswered }: Put): Promise<number> {
    const { client, keys } = this.#needs
    if (this.#end === null) throw new LostLeadership()
    const before = this.#end
    const answer = await client.transact(
      {
        when: [
          { key: keys.leader, createRevision: revision },
          { key, createRevision: 0 },
          { key: before.key, modRevision: before.modRevision }
        ],
        then: [{ put: key, value }],
        otherwise: [{ range: { key } }, { range: { key: keys.leader } }, { range: { key: before.key } }]
      },
      { limitMs: appendMs, onUnanswered }
    )
    if (answer.succeeded) return answer.revision
    const [[line] = [], [leader] = [], [last] = []] = answer.ranges
    // The request may have been carried out twice.
    if (line?.value.equals(value) === true) return line.modRevision
    const isLeading = leader?.createRevision === revision
    throw isLeading && last?.modRevision !== before.modRevision ? new LostLine(before.key) : new LostLeadership()
  }

  /** Throws if the log does not fit to a database with the transactions up to `at`. It has no more than these. */
  #checkEnd(at: number, reached: number | null, { begun, lines }: Page): void {
    const { keys, sealing, history } = this.#needs
    const { id, after } = begun === undefined ? { id: null, after: 0 } : openHistory(begun.value, { keys, sealing })
    if (id !== history) throw new OlderLog(at, 0)
    if (reached === null && after > at) throw new Trimmed(at, after)
    if ((reached ?? after) < at) throw new OlderLog(at, reached ?? after)
    this.#end = lines.at(-1) ?? (begun as KeyValue)
    sealing.adopt((begun as KeyValue).value, { key: keys.history, history: '' })
  }

  async #readOn(after: number, { take, signal }: FollowOptions): Promise<{ at: number; revision: number }> {
    for (let at = after; ; ) {
      const page = await this.#readPage(at, signal)
      let reached: number | null = null
      if (at === after) await this.#checkSeen(page)
      for (const value of page.lines) {
        const { first, transactions } = await this.#values.open(value)
        if (signal.aborted) return { at, revision: page.revision }
        // Trimming removes the beginning only. So a line before proves that those between were there.
        if (reached !== null && first !== reached + 1)
          throw new DamagedLog(value.key, `what follows ${reached} is missing before it`)
        reached = first + transactions.length - 1
        if (reached <= at) continue
        if (first > at + 1) throw new Trimmed(at, first - 1)
        at = await this.#hand({ first, transactions }, value, take)
      }
      if (!page.isLast) continue
      this.#checkEnd(at, reached, page)
      this.#needs.onLeader?.(page.leader ?? null, page.revision)
      return { at, revision: page.revision }
    }
  }

  async #trim(upTo: number): Promise<void> {
    const { leading, client, keys, history, sealing } = this.#needs
    const revision = leading()
    if (revision === null) throw new LostLeadership()
    const { keys: found } = await client.range({
      key: keys.log,
      end: keys.line(upTo + 2),
      limit: 1,
      isDescending: true,
      isKeysOnly: true
    })
    if (found[0] === undefined) return
    const kept = keys.numberOf(found[0].key)
    if (!Number.isSafeInteger(kept)) return
    const value = sealHistory({ id: history, after: kept - 1 }, { keys, sealing })
    const deletions = [
      { delete: keys.line(0), end: keys.line(kept) },
      { delete: keys.partOf(0, 0), end: keys.partOf(kept, 0) }
    ]
    const when = [{ key: keys.leader, createRevision: revision }]
    const { succeeded, revision: at } = await client
      .transact({ when, then: [{ put: keys.history, value }, ...deletions] })
      .catch((error: unknown) => {
        // A full etcd refuses every put, but not a deletion. The gap says as well where the log begins.
        if (error instanceof EtcdError && error.isFull) return client.transact({ when, then: deletions })
        throw error
      })
    if (!succeeded) throw new LostLeadership()
    await compact(client, at)
  }
}

/** Returns the line if it is in the log with this value. */
async function findLine(client: EtcdClient, key: string, value: Buffer): Promise<KeyValue | undefined> {
  const { keys: found } = await client.range({ key }, { limitMs: appendMs })
  return found.find(line => line.value.equals(value))
}

async function compact(client: EtcdClient, at: number): Promise<void> {
  await client.compact(at).catch((error: unknown) => {
    if (!(error instanceof EtcdError && error.isCompacted)) throw error
  })
}

/** A watch did not report a line. The log is read again from there. */
class Gap extends Error {}

/** Whether an error may pass: etcd did not answer, or the connection of a watch was cut. */
function isOfConnection(error: unknown): boolean {
  if (error instanceof Unreachable || error instanceof EtcdError) return true
  return error instanceof Error && 'code' in error && /^E[A-Z]+$|^ERR_|ABORT_ERR/.test(String(error.code))
}

/*
 * How a line of the log is in etcd: as it would be in the file (core/store/redo.ts), sealed. A line of more than
 * `partBytes` is stored in parts; its value then names their number, and is written last. etcd refuses requests of more
 * than 1.5 MiB.
 */

/** Writes and reads the values of lines. */
export interface LineValues {
  /**
   * Returns the value of a line whose first transaction has the number `first`, and puts its parts into etcd if it is
   * too long. Throws `LostLeadership` if the leader's key no longer has this create revision.
   */
  seal(first: number, transactions: string[], revision: number): Promise<Buffer>
  /** Returns the line of a value. Throws if it is damaged, or a part is missing. */
  open(found: Pick<KeyValue, 'key' | 'value'>): Promise<LogLine>
}

export interface LineValuesNeeds {
  client: EtcdClient
  keys: ClusterKeys
  sealing: Sealing
  /** The id of the log. */
  history: string
  /** Time limit of one request that writes. */
  writeMs: number
}

/** Maximum size of a line in one value, and of a part. */
const partBytes = 768 * 1024
const marker = '{"parts":'
/** A transaction has at most 32 MiB (local-copy.ts), and a line has those that waited at the same time. */
const maxParts = 256
/** What etcd accepts by default as one request. */
const maxValueBytes = 1.5 * 1024 * 1024

/** Creates what writes and reads the values of one log. */
export function createLineValues({ client, keys, sealing, history, writeMs }: LineValuesNeeds): LineValues {
  /** Puts the parts of a line into etcd, and returns what its value says of them. */
  async function putParts(line: Buffer, first: number, revision: number): Promise<Buffer> {
    const count = Math.ceil(line.length / partBytes)
    for (let part = 0; part < count; part++) {
      const key = keys.partOf(first, part)
      const plain = line.subarray(part * partBytes, (part + 1) * partBytes)
      const value = sealing.seal(plain, { key, history, number: first })
      const when = [{ key: keys.leader, createRevision: revision }]
      const { succeeded } = await client.transact({ when, then: [{ put: key, value }] }, { limitMs: writeMs })
      if (!succeeded) throw new LostLeadership()
    }
    return Buffer.from(`${marker}${count}}`)
  }

  async function joinParts(first: number, plain: Buffer): Promise<Buffer> {
    const parts = Number(/^\{"parts":(\d{1,6})\}$/.exec(plain.toString())?.[1] ?? 0)
    if (parts < 1 || parts > maxParts) throw new DamagedLog(keys.line(first), `it names ${parts} parts`)
    const pieces: Buffer[] = []
    for (let part = 0; part < parts; part++) {
      const key = keys.partOf(first, part)
      const { keys: found } = await client.range({ key })
      if (found[0] === undefined) throw new DamagedLog(key, 'the part is missing')
      pieces.push(sealing.open(found[0].value, { key, history, number: first }))
    }
    return Buffer.concat(pieces)
  }

  return {
    async seal(first, transactions, revision) {
      const line = encodeLine(first, transactions)
      const plain = line.length <= partBytes ? line : await putParts(line, first, revision)
      return sealing.seal(plain, { key: keys.line(first), history, number: first })
    },
    async open({ key, value }) {
      const first = keys.numberOf(key)
      if (!Number.isSafeInteger(first) || keys.line(first) !== key) throw new DamagedLog(key, 'the key has no number')
      if (value.length > maxValueBytes) throw new DamagedLog(key, `it has ${value.length} bytes`)
      const plain = sealing.open(value, { key, history, number: first })
      const isInParts = plain.subarray(0, marker.length).equals(Buffer.from(marker))
      const line = lineIn(isInParts ? await joinParts(first, plain) : plain)
      if (line === null || line.first !== first || line.transactions.length === 0) {
        throw new DamagedLog(key, 'it is not the line of this number')
      }
      return line
    }
  }
}

/** Returns the line in a text; null if it is malformed. */
function lineIn(text: Buffer): LogLine | null {
  try {
    return decodeLine(text)
  } catch {
    return null
  }
}

/** Returns what tells a sealed value apart from every other one: its tag depends on its nonce and its contents. */
export function tagOf(value: Buffer): string {
  return value.subarray(-tagBytes).toString('base64url')
}
