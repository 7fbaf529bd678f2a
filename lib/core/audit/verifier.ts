/*
 * Verifies an export, piece by piece, without a server: the entries give their hashes, the hashes the root, and the root
 * is signed. Checkpoints from elsewhere (anchors) prove that the past was not rewritten.
 */
import { createHash } from 'node:crypto'
import { sha256Base64 } from '../../base/digests.js'
import {
  type Checkpoint,
  isBase64,
  readCheckpoint,
  readNote,
  readVerifierKey,
  type SignedNote,
  type Verifier
} from './signed-note.js'
import {
  blockHeight,
  blockLeaves,
  entryStart,
  exportExtension,
  exportVersion,
  hashBytes,
  hashLength,
  leafStart,
  otherLine,
  type OtherLine,
  trimmedAction,
  unsignedVersion
} from './tree.js'
import { addRange, createRemovals, type RemovedRange } from './removals.js'

/** The result of a verification. */
export interface Verdict {
  /** What is wrong, the first fault of the file first; empty: nothing. */
  faults: string[]
  /** The number of entries that the checkpoint covers. */
  size: number
  /** How many of them the export contains, were removed from the log before, and were not exported. */
  entries: number
  removed: number
  omitted: number
  /** Which were removed, and which entry says so. Their content proves nothing any more. */
  removedRanges: RemovedRange[]
  omittedRanges: Array<[from: number, to: number]>
  /** The version of the format; 0: it was not read. */
  version: number
  /** The key that the export names. */
  key: string | null
  /** The anchors that were compared, by size. */
  anchors: number[]
}

/** What an export is compared with. */
export interface VerifierOptions {
  /** Checkpoints from elsewhere. Their signatures were verified. */
  anchors?: readonly Checkpoint[]
  /** The key of the server; null: the key that the export names. */
  key?: Verifier | null
  /** The number of summaries of failed attempts that the server never removes. 0: this is not verified. */
  keepsFailures?: number
  /** Whether entries may be omitted without a signature that says so, as in exports of version 1. */
  allowsUnsigned?: boolean
}

const newline = 0x0a
const colon = 0x3a
/** Maximum length of a line in bytes. */
const maxLineBytes = 16 * 1024 * 1024
const closing = 0x7d
const leafAt = leafStart.length
const leafEnd = leafAt + hashLength
const textAt = leafEnd + entryStart.length
/** Length of `{"seq":` with the largest number and the comma. */
const maxSeqLength = 24
/** Fields that entries are searched for. Within a text, the quotes of such a field would be escaped. */
const trimmedText = Buffer.from(`"action":"${trimmedAction}"`)
const failuresText = Buffer.from(',"failures":')

/** Ends the verification at the first fault of the file. */
class Fault extends Error {}

/** Verifies an export. */
export class ExportVerifier {
  readonly #options: Required<VerifierOptions>
  readonly #tree = createRoots()
  readonly #removals: ReturnType<typeof createRemovals>
  readonly #omittedRanges: Array<[from: number, to: number]> = []
  readonly #roots = new Map<number, string>()
  readonly #anchored: ReadonlySet<number>
  readonly #counts = { entries: 0, removed: 0, omitted: 0 }
  /** Of all lines before the checkpoint. */
  readonly #digest = createHash('sha256')
  #version = 0
  #rest: Buffer = Buffer.alloc(0)
  #fault: string | null = null
  #line = 0
  #named: string | null = null
  #checkpoint: { note: SignedNote; checkpoint: Checkpoint } | null = null
  /** Whether entries were omitted after exported ones. None may be exported then. */
  #hasOmittedEnd = false

  constructor({ anchors = [], key = null, keepsFailures = 0, allowsUnsigned = false }: VerifierOptions = {}) {
    this.#options = { anchors, key, keepsFailures, allowsUnsigned }
    this.#removals = createRemovals({ keepsFailures })
    this.#anchored = new Set(anchors.map(({ size }) => size))
  }

  push(bytes: Buffer): void {
    if (this.#fault !== null) return
    try {
      this.#rest = this.#readLines(this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]))
      if (this.#rest.length > maxLineBytes) throw this.#unreadable()
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      this.#fault = error.message
    }
  }

  end(): Verdict {
    const removal = this.#removals.end()
    const faults =
      this.#fault === null
        ? [...this.#faultsAtEnd(), ...this.#faultsOfRemovals(removal), ...this.#faultsOfAnchors()]
        : [this.#fault]
    const ranges = { removedRanges: removal.ranges, omittedRanges: this.#omittedRanges }
    const compared = this.#options.anchors.map(({ size }) => size).sort((a, b) => a - b)
    return {
      faults,
      size: this.#tree.size(),
      ...this.#counts,
      ...ranges,
      version: this.#version,
      key: this.#named,
      anchors: compared
    }
  }

  #readLine(bytes: Buffer, from: number, to: number): void {
    this.#line++
    if (this.#checkpoint !== null)
      throw new Fault(`Line ${this.#line} is not part of an export: it follows the checkpoint`)
    if (this.#line === 1) return this.#readHead(bytes.toString('utf8', from, to))
    const head = headOf(bytes, from, to)
    if (head !== null) return this.#readEntry(bytes, { from, to, head })
    this.#readOther(bytes.toString('utf8', from, to))
  }

  #readHead(text: string): void {
    const head = parsed(text)
    const isHead = head !== null && 'svcAudit' in head && Number.isSafeInteger(head.svcAudit)
    if (!isHead || typeof head.key !== 'string') throw new Fault('This is not an export of an audit log')
    if (head.svcAudit !== exportVersion && head.svcAudit !== unsignedVersion)
      throw new Fault(`This export has version ${head.svcAudit}, and this svc reads up to ${exportVersion}`)
    this.#version = head.svcAudit
    this.#named = head.key
  }

  #readEntry(bytes: Buffer, { from, to, head }: { from: number; to: number; head: string }): void {
    const seq = this.#tree.size() + 1
    if (!head.startsWith(`{"seq":${seq},`, textAt)) throw this.#outOfOrder(seq)
    // The hash of a leaf begins with a zero byte, for which the byte before the text makes room.
    bytes[from + textAt - 1] = 0
    const leaf = sha256Base64(bytes.subarray(from + textAt - 1, to - 1))
    bytes[from + textAt - 1] = colon
    if (leaf !== head.slice(leafAt, leafEnd))
      throw new Fault(`Entry ${seq} was changed: its text does not give its hash`)
    if (this.#hasOmittedEnd) throw new Fault(`Entry ${seq} follows entries that were not exported`)
    this.#counts.entries++
    if (this.#removals.isEmpty()) this.#removals.begin(seq, bytes.toString('utf8', from + textAt, to - 1))
    this.#append(leaf, 0)
  }

  #readOther(text: string): void {
    const given = parsed(text)
    if (given === null) throw this.#unreadable()
    if ('checkpoint' in given) return this.#readLast(given.checkpoint)
    if ('svcAudit' in given) throw this.#unreadable()
    const [hash, number] =
      'leaf' in given
        ? [given.leaf, 'removed' in given ? given.removed : given.omitted]
        : [given.root, 'removedBlock' in given ? given.removedBlock : given.omittedBlock]
    if (!isHash(hash) || !Number.isSafeInteger(number)) throw this.#unreadable()
    const [height, count] = 'leaf' in given ? [0, 1] : [blockHeight, blockLeaves]
    const seq = this.#tree.size() + 1
    if ((number - 1) * count + 1 !== seq) throw this.#outOfOrder(seq)
    this.#skip('removed' in given || 'removedBlock' in given, count)
    this.#append(hash, height)
  }

  #skip(isRemoved: boolean, count: number): void {
    const seq = this.#tree.size() + 1
    if (isRemoved) {
      if (this.#hasOmittedEnd) throw new Fault(`Entry ${seq} follows entries that were not exported`)
      this.#counts.removed += count
      this.#removals.miss(seq, seq + count - 1)
    } else {
      if (this.#counts.entries + this.#counts.removed > 0) this.#hasOmittedEnd = true
      this.#counts.omitted += count
      addRange(this.#omittedRanges, seq, seq + count - 1)
    }
  }

  #append(hash: string, height: number): void {
    this.#tree.append(hash, height)
    if (this.#anchored.has(this.#tree.size())) this.#roots.set(this.#tree.size(), this.#tree.root())
  }

  #readLast(text: string): void {
    const note = readNote(text)
    const found = note === null ? null : readCheckpoint(note.text)
    if (note === null || found === null) throw new Fault('The checkpoint at the end cannot be read')
    this.#checkpoint = { note, checkpoint: found }
  }

  #unreadable(): Fault {
    return new Fault(`Line ${this.#line} cannot be read: it was changed, or is not part of an export`)
  }

  #outOfOrder(seq: number): Fault {
    return new Fault(`Line ${this.#line} is not entry ${seq}: entries are missing, were added, or are in another order`)
  }

  /** Reads all complete lines. The entries about removed ones and of failed attempts are found by one search each. */
  #readLines(bytes: Buffer): Buffer {
    let from = 0
    let before = 0
    let trimmed = bytes.indexOf(trimmedText)
    let failed = bytes.indexOf(failuresText)
    for (let to = bytes.indexOf(newline); to !== -1; to = bytes.indexOf(newline, from)) {
      this.#readLine(bytes, from, to)
      const isEntry = (trimmed !== -1 && trimmed < to) || (failed !== -1 && failed < to)
      if (isEntry && headOf(bytes, from, to) !== null) {
        if (trimmed !== -1 && trimmed < to)
          this.#removals.say(this.#tree.size(), bytes.toString('utf8', from + textAt, to - 1))
        else this.#removals.fail(this.#tree.size())
      }
      if (trimmed !== -1 && trimmed < to) trimmed = bytes.indexOf(trimmedText, to)
      if (failed !== -1 && failed < to) failed = bytes.indexOf(failuresText, to)
      from = to + 1
      if (this.#checkpoint === null) before = from
    }
    this.#digest.update(bytes.subarray(0, before))
    return bytes.subarray(from)
  }

  #faultsAtEnd(): string[] {
    const { key } = this.#options
    if (this.#rest.length > 0) return ['The end is missing: the last line is not complete']
    if (this.#checkpoint === null)
      return [`The end is missing: there is no checkpoint after entry ${this.#tree.size()}`]
    const { note, checkpoint: claimed } = this.#checkpoint
    if (claimed.size > this.#tree.size())
      return [`The end is missing: the checkpoint has ${claimed.size} entries, and the export ${this.#tree.size()}`]
    if (claimed.size < this.#tree.size() || claimed.root.toString('base64') !== this.#tree.root())
      return [
        'The entries do not give the root of the checkpoint: an entry was changed together with its hash, or added'
      ]
    const verifier = key ?? readVerifierKey(this.#named ?? '')
    if (verifier === null || this.#named === null) return ['The key of the export cannot be read']
    if (
      key !== null &&
      readVerifierKey(this.#named)?.keyId !== key.keyId &&
      !note.signatures.some(({ keyId }) => keyId === key.keyId)
    )
      return [
        `The export was signed with another key (${readVerifierKey(this.#named)?.keyId ?? 'unreadable'}) than the given one (${key.keyId})`
      ]
    if (!verifier.verifies(note)) return ['The signature of the checkpoint is not valid']
    if (readVerifierKey(this.#named)?.verifies(note) !== true)
      return ['The checkpoint is not signed with the key that the export names']
    return this.#faultsOfLines(claimed)
  }

  /** The hash of an entry may stand for the entry only where the server has put it. */
  #faultsOfLines({ extensions }: Checkpoint): string[] {
    if (this.#version === exportVersion)
      return extensions.includes(exportExtension(this.#digest.digest('base64')))
        ? []
        : ['The checkpoint does not sign these lines: entries were left out after the export, or it is of another one']
    if (this.#counts.omitted === 0 || this.#options.allowsUnsigned) return []
    return [
      `${this.#counts.omitted} entries are left out, and nothing signs that the server did it: the export has version ${this.#version}. Export it again with a newer svc`
    ]
  }

  #faultsOfRemovals({ ranges, faults }: ReturnType<ReturnType<typeof createRemovals>['end']>): string[] {
    const missing = ranges.find(({ by }) => by === null)?.from
    // The entry that says so may be among those that were not exported.
    if (missing === undefined || this.#counts.omitted > 0) return faults
    return [...faults, `Entry ${missing} is missing: only its hash is left, and no entry says that it was removed`]
  }

  #faultsOfAnchors(): string[] {
    return this.#options.anchors.flatMap(({ size, root, origin }) => {
      if (this.#checkpoint !== null && origin !== this.#checkpoint.checkpoint.origin)
        return [`The anchor of ${size} entries belongs to another log: ${origin}`]
      if (size > this.#tree.size())
        return [`The end is missing: an anchor has ${size} entries, and the export ${this.#tree.size()}`]
      const found = this.#roots.get(size)
      if (found === undefined)
        return size === 0
          ? []
          : [`The anchor of ${size} entries cannot be compared: the hashes of these entries are not in the export`]
      if (found === root.toString('base64')) return []
      return [`The past was rewritten: the first ${size} entries are not those of the anchor`]
    })
  }
}

/**
 * Returns the beginning of the line of an entry, up to its number; null for another line. One text is read for all
 * comparisons: each call into native code takes as long as they all.
 */
function headOf(bytes: Buffer, from: number, to: number): string | null {
  if (to - from <= textAt || bytes[to - 1] !== closing) return null
  const head = bytes.toString('latin1', from, Math.min(to, from + textAt + maxSeqLength))
  return head.startsWith(leafStart) && head.startsWith(entryStart, leafEnd) ? head : null
}

/** Reads a line; null unless it is exactly as `otherLine` writes it. */
function parsed(text: string): OtherLine | null {
  try {
    const line = JSON.parse(text) as OtherLine
    if (typeof line !== 'object' || line === null || otherLine(line) !== `${text}\n`) return null
    return shapes.has(Object.keys(line).join()) ? line : null
  } catch {
    return null
  }
}

const shapes = new Set([
  'svcAudit,key',
  'leaf,removed',
  'leaf,omitted',
  'removedBlock,root',
  'omittedBlock,root',
  'checkpoint'
])

/** Returns whether it is a hash in base64. Its last character is padding: another one there would be a 33rd byte. */
function isHash(text: unknown): text is string {
  return typeof text === 'string' && text.length === hashLength && text.endsWith('=') && isBase64(text)
}

/** Computes roots as tree.ts does, on hashes in base64: a hash that stays text costs less than one that becomes bytes. */
function createRoots() {
  const nodeInput = Buffer.alloc(1 + 2 * hashBytes, 1)
  const hashes: string[] = []
  let size = 0

  function node(left: string, right: string): string {
    nodeInput.write(left, 1, 'base64')
    nodeInput.write(right, 1 + hashBytes, 'base64')
    return sha256Base64(nodeInput)
  }

  return {
    size: () => size,
    append(hash: string, height: number): void {
      const leaves = 2 ** height
      let joined = hash
      for (let number = size / leaves; number % 2 === 1; number = (number - 1) / 2)
        joined = node(hashes.pop() as string, joined)
      hashes.push(joined)
      size += leaves
    },
    root: (): string =>
      hashes.length === 0 ? sha256Base64(Buffer.alloc(0)) : hashes.reduceRight((right, left) => node(left, right))
  }
}
