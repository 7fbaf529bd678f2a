/*
 * The Merkle tree of RFC 6962 §2.1 over SHA-256. A tree that only grows is described by its frontier: the roots of the
 * perfect subtrees that its leaves form, the largest first. There is one for each bit of the size.
 */

import { sha256 } from '../../base/digests.js'
import type { AuditEntry } from '../../model/audit.js'

/** The length of a hash. */
export const hashBytes = 32
/** A block is a perfect subtree of this height, whose root is stored. */
export const blockHeight = 8
/** The number of leaves of a block. */
export const blockLeaves = 2 ** blockHeight

/** The number of leaves of a tree, and the roots of its perfect subtrees, the largest first. */
export interface Frontier {
  readonly size: number
  readonly hashes: readonly Buffer[]
}

/** Returns the root of a perfect subtree: its height, and its number from the left among those of this height. */
export type ReadNode = (height: number, number: number) => Buffer

const leafMark = Buffer.of(0)
const nodeInput = Buffer.alloc(1 + 2 * hashBytes, 1)

export function hashLeaf(text: string | Uint8Array): Buffer {
  return sha256(Buffer.concat([leafMark, typeof text === 'string' ? Buffer.from(text) : text]))
}

export function hashNode(left: Uint8Array, right: Uint8Array): Buffer {
  nodeInput.set(left, 1)
  nodeInput.set(right, 1 + hashBytes)
  return sha256(nodeInput)
}

/** Appends a leaf. `block` is the root of the block that the leaf completes; null if it completes none. */
export function appendLeaf({ size, hashes }: Frontier, leaf: Buffer): { frontier: Frontier; block: Buffer | null } {
  const next = [...hashes]
  let node = leaf
  let block: Buffer | null = null
  for (let height = 0, rest = size; rest % 2 === 1; rest = (rest - 1) / 2) {
    node = hashNode(next.pop() as Buffer, node)
    if (++height === blockHeight) block = node
  }
  next.push(node)
  return { frontier: { size: size + 1, hashes: next }, block }
}

export function rootOf({ hashes }: Frontier): Buffer {
  if (hashes.length === 0) return sha256(Buffer.alloc(0))
  return hashes.reduceRight((right, left) => hashNode(left, right))
}

/** Returns whether the number of hashes fits the size. */
export function isFrontier({ size, hashes }: Frontier): boolean {
  if (!Number.isSafeInteger(size) || size < 0) return false
  let bits = 0
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) bits += rest % 2
  return hashes.length === bits && hashes.every(({ length }) => length === hashBytes)
}

/** Returns the frontier of the first `size` leaves. */
export function frontierAt(size: number, read: ReadNode): Frontier {
  const hashes: Buffer[] = []
  for (const { height, number } of perfectParts(0, size)) hashes.push(read(height, number))
  return { size, hashes }
}

/** Returns the proof that the leaf with this index is in the tree of the first `size` leaves (RFC 6962 §2.1.1). */
export function inclusionProof(index: number, size: number, read: ReadNode): Buffer[] {
  const proof: Buffer[] = []
  for (let [from, to] = [0, size]; to - from > 1; ) {
    const middle = from + largestPowerBelow(to - from)
    if (index < middle) {
      proof.push(rangeRoot(middle, to, read))
      to = middle
    } else {
      proof.push(rangeRoot(from, middle, read))
      from = middle
    }
  }
  return proof.reverse()
}

/** Returns the proof that the tree of `to` leaves begins with the tree of `from` leaves (RFC 6962 §2.1.2). */
export function consistencyProof(from: number, to: number, read: ReadNode): Buffer[] {
  if (from === 0 || from === to) return []
  const proof: Buffer[] = []
  let [start, end] = [0, to]
  // Whether the subtree that is being split is the whole earlier tree. Its root is known then.
  let isWhole = true
  while (from !== end) {
    const middle = start + largestPowerBelow(end - start)
    if (from <= middle) {
      proof.push(rangeRoot(middle, end, read))
      end = middle
    } else {
      proof.push(rangeRoot(start, middle, read))
      start = middle
      isWhole = false
    }
  }
  if (!isWhole) proof.push(rangeRoot(start, end, read))
  return proof.reverse()
}

/** Returns the root of the leaves from `from` up to `to`, as a subtree of a larger tree has them. */
function rangeRoot(from: number, to: number, read: ReadNode): Buffer {
  const parts = perfectParts(from, to).map(({ height, number }) => read(height, number))
  return parts.reduceRight((right, left) => hashNode(left, right))
}

/** Splits the leaves from `from` up to `to` into perfect subtrees. `from` is the first leaf of a subtree of the tree. */
function perfectParts(from: number, to: number): Array<{ height: number; number: number }> {
  const parts: Array<{ height: number; number: number }> = []
  for (let at = from; at < to; ) {
    const height = Math.floor(Math.log2(to - at))
    parts.push({ height, number: at / 2 ** height })
    at += 2 ** height
  }
  return parts
}

function largestPowerBelow(leaves: number): number {
  const power = 2 ** Math.floor(Math.log2(leaves))
  return power === leaves ? power / 2 : power
}

/*
 * Lists of numbers as text: `1-4000` or `12,15,18-30`. Entries of the action `audit.trimmed` name in this way the leaves
 * whose entries were removed, so that a removal without such an entry is found.
 */

/** The action of an entry that says which other entries were removed. Its target is a list of their numbers. */
export const trimmedAction = 'audit.trimmed'

/** The newest summaries of failed attempts that always stay, about 10 MB. */
export const keptFailures = 20_000

/** Writes ascending numbers as text. */
export function writeRanges(numbers: readonly number[]): string {
  const parts: string[] = []
  for (let at = 0; at < numbers.length; ) {
    const from = numbers[at] as number
    let to = from
    while (numbers[++at] === to + 1) to++
    parts.push(from === to ? String(from) : `${from}-${to}`)
  }
  return parts.join(',')
}

/** Reads such a text; an unreadable part is left out. */
export function readRanges(text: string): Array<[from: number, to: number]> {
  return text.split(',').flatMap(part => {
    const [, from, to] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part) ?? []
    return from === undefined ? [] : [[Number(from), Number(to ?? from)] as [number, number]]
  })
}

/** The leaves without an entry, and those that entries say were removed. */
export type Gaps = ReturnType<typeof createGaps>

/** Creates an empty record of gaps. */
export function createGaps() {
  const missing: Array<[from: number, to: number]> = []
  const announced: Array<[from: number, to: number]> = []

  return {
    /** Notes that the entries of these leaves are missing. Must be called in ascending order. */
    miss(from: number, to: number): void {
      const last = missing.at(-1)
      if (last !== undefined && last[1] + 1 === from) last[1] = to
      else missing.push([from, to])
    },

    /** Notes the target of an entry that says which ones were removed. */
    announce: (target: string): void => void announced.push(...readRanges(target)),
    /** Returns the number of missing entries. */
    count: (): number => missing.reduce((sum, [from, to]) => sum + to - from + 1, 0),

    /** Returns the first missing entry that no entry names; null if there is none. */
    unannounced(): number | null {
      announced.sort(([a], [b]) => a - b)
      let next = 0
      let covered = 0
      for (const [from, to] of missing) {
        for (let open = from; open <= to; open = covered + 1) {
          for (let range = announced[next]; range !== undefined && range[0] <= open; range = announced[++next])
            covered = Math.max(covered, range[1])
          if (covered < open) return open
        }
      }
      return null
    }
  }
}

/** An entry that is a leaf of the tree. */
export type SealedEntry = AuditEntry & { seq: number }

/** The order of the fields. New fields are added at the end. */
const fields = [
  'seq',
  'id',
  'at',
  'action',
  'actor',
  'tokenId',
  'tokenName',
  'role',
  'sessionId',
  'ip',
  'claimedIp',
  'projectId',
  'target',
  'detail',
  'ok',
  'failures'
] as const satisfies ReadonlyArray<keyof AuditEntry>

/**
 * Returns the canonical JSON of an entry, whose hash is its leaf. Fields that are null are left out, so that a field
 * of a later version does not change the text of earlier entries.
 */
export function entryText(entry: SealedEntry): string {
  const text: Partial<Record<keyof AuditEntry, unknown>> = {}
  for (const field of fields) if (entry[field] !== null) text[field] = entry[field]
  return JSON.stringify(text)
}

/*
 * The format of an export: JSON lines, which together give the root of the checkpoint in the last one.
 *
 *   {"svcAudit":2,"key":"<verifier key>"}
 *   {"leaf":"<base64>","entry":{"seq":7, …}}    an entry, as `entryText` writes it, and the hash of its leaf
 *   {"leaf":"<base64>","removed":8}             an entry that was removed from the log
 *   {"removedBlock":2,"root":"<base64>"}        256 removed entries: the block with this number, from 1
 *   {"leaf":"<base64>","omitted":9}             an entry outside the exported range
 *   {"omittedBlock":1,"root":"<base64>"}        256 entries outside it
 *   {"checkpoint":"<signed note>"}
 *
 * Every byte matters: a verifier accepts a line only in exactly this form. The hash of an entry can stand for the entry, so
 * the checkpoint has the extension `export <base64 of the SHA-256 of all lines before it>`: the server signs which entries
 * it left out. Exports of version 1 have a checkpoint without it.
 */

export const exportVersion = 2
/** The version of exports whose checkpoint does not sign the lines before it. */
export const unsignedVersion = 1
/** Returns the extension of the checkpoint of an export. `digest` is the SHA-256 of all lines before it, in base64. */
export const exportExtension = (digest: string): string => `export ${digest}`
/** The beginning of the line of a leaf. Its hash follows. */
export const leafStart = '{"leaf":"'
/** The length of a hash in base64. */
export const hashLength = 44
/** What is between the hash and the text of the entry. */
export const entryStart = '","entry":'

export function entryLine(leaf: string, text: string): string {
  return `${leafStart}${leaf}${entryStart}${text}}\n`
}

/** A line other than that of an entry. */
export type OtherLine =
  | { svcAudit: number; key: string }
  | { leaf: string; removed: number }
  | { leaf: string; omitted: number }
  | { removedBlock: number; root: string }
  | { omittedBlock: number; root: string }
  | { checkpoint: string }

/** Returns such a line. */
export function otherLine(line: OtherLine): string {
  return `${JSON.stringify(line)}\n`
}
