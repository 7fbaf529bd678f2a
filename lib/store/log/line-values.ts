/*
 * How a line of the log is in etcd: as it would be in the file (redo.ts), sealed. A line of more than `partBytes` is
 * stored in parts; its value then names their number, and is written last. etcd refuses requests of more than 1.5 MiB.
 */
import { decodeLine, encodeLine } from '../redo.js'
import type { EtcdClient, KeyValue } from './etcd/client.js'
import type { ClusterKeys } from './keys.js'
import { DamagedLog, LostLeadership, type LogLine } from './redo-log.js'
import { tagBytes, type Sealing } from './sealing.js'

/** Writes and reads the values of lines. */
export interface LineValues {
  /**
   * Returns the value of a line whose first transaction has the number `first`, and puts its parts into etcd if it is too
   * long. Throws `LostLeadership` if the leader's key no longer has this create revision.
   */
  seal(first: number, transactions: string[], revision: number): Promise<Buffer>
  /** Returns the line of a value. Throws if it is damaged, or a part is missing. */
  open(found: Pick<KeyValue, 'key' | 'value'>): Promise<LogLine>
}

/** Dependencies of `createLineValues`. */
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
