/*
 * A tree as a request body, `text/vnd.svc-tree`, sorted by path (`compareTreePaths`):
 *
 *   svc-tree 1 16
 *   <type and permissions, 6 octal digits> <size> <SHA-256> <modification time in ms> <path>
 *   end <number of entries> <SHA-256 of the canonical text> <SHA-256 of the contents>
 *
 * The first line contains the number of hex digits of each SHA-256: 16 or 64. 16 digits find what has changed, and make
 * the body a third of the size. They prove nothing: a deployment is held to the two digests of the last line, which
 * cover all 64 digits (core/install/expected.ts). With 64 digits, the server checks the SHA-256 of the canonical text, and
 * the last digest is left out.
 *
 * The canonical text (base/shared/tree-text.ts) is the same without times; the contents are types, sizes, digests and paths
 * (model/manifest.ts). Names of entries must be names that an archive may have (names.ts).
 *
 * A tree is read line by line, twice: first it is checked. Only its text is kept in memory.
 */
import { gunzipSync } from 'node:zlib'
import { hasCode, Refusal } from '../../base/errors.js'
import { createContentsDigest, createTreeDigest, fullDigits } from '../../model/manifest.js'
import { formatBytes } from '../../base/shared/api.js'
import { bodyHead, bodyLine, compareTreePaths, linkMode } from '../../base/shared/tree-text.js'
import { checkDirectories, type NamedEntry, quoteName, readName, refuseAbove } from './names.js'
import type { TimedEntry } from './tree.js'
import { deltaHead, goneMark } from '../../base/shared/tree-delta.js'

/** The media type of the body. */
export const treeMediaType = 'text/vnd.svc-tree'
/** Maximum number of entries of a tree: as many as an archive may have. */
export const maxTreeEntries = 200_000
/** Maximum size of the text in bytes. */
export const maxTreeBytes = 64 * 1024 * 1024

/** A tree inflates to about four times its size; one of empty files with similar names to some dozen times. */
const maxRatio = 200
/** Size from which the ratio is checked. */
const ratioFromBytes = 1024 * 1024

/** Number of hex digits of a digest: all, or enough to find what has changed. */
export type Digits = 16 | 64

const shortDigits: Digits = 16
const headOf = (digits: number): string => bodyHead(digits).trimEnd()
const entryPattern = /^([0-7]{6}) (\d{1,16}) ([0-9a-f]+) (-?\d{1,16}) (.+)$/
const endPattern = /^end (\d{1,9}) ([0-9a-f]{64})(?: ([0-9a-f]{64}))?$/
/** A regular file with at least one permission bit. */
const filePattern = /^100[0-7]{3}$/
const noPermissions = 0o100000

/** Returns the body of a tree, in pieces. */
export function* writeTree(
  entries: readonly TimedEntry[],
  treeSha256: string,
  digits: Digits = shortDigits
): Generator<string> {
  const contents = createContentsDigest()
  yield bodyHead(digits)
  for (const entry of entries) {
    contents.add(entry)
    yield bodyLine(entry, digits)
  }
  yield `end ${entries.length} ${treeSha256}${digits === fullDigits ? '' : ` ${contents.end()}`}\n`
}

/** A received tree that was checked. */
export interface ReceivedTree {
  digits: Digits
  count: number
  /** Total size of the files in bytes. */
  bytes: number
  /** The SHA-256 of the canonical text: checked if the tree has all digits, otherwise what the client says. */
  treeSha256: string
  /** The SHA-256 of the contents (`createContentsDigest`), of all digits. */
  contentsSha256: string
  /** Yields the entries. Their digests have as many digits as the tree. */
  entries(): Generator<TimedEntry>
}

/**
 * Reads the body of a tree, which may be compressed with gzip. Refuses: 400 `invalid_tree` with the number of the line,
 * 400 `broken_gzip`, 413 `tree_too_large`.
 */
export function readTree(body: Uint8Array): ReceivedTree {
  const text = textOf(body)
  const lines = linesOf(text)
  const first = lines.next()
  const digits = ([shortDigits, fullDigits] as const).find(each => first.value === headOf(each))
  if (digits === undefined) throw broken(1, `expected "${headOf(fullDigits)}" or "${headOf(shortDigits)}"`)
  return { ...check(lines, digits), digits, entries: () => entriesOf(text, digits) }
}

/** Returns the text of a body, which may be compressed with gzip. Refuses like `readTree`. */
export function textOf(body: Uint8Array): Buffer {
  const text = inflate(Buffer.from(body.buffer, body.byteOffset, body.length))
  checkUtf8(text)
  if (text.at(-1) !== newline) throw broken(1, 'the last line is incomplete')
  return text
}

type Checked = Omit<ReceivedTree, 'digits' | 'entries'>

function check(lines: Generator<string>, digits: Digits): Checked {
  const canonical = createTreeDigest()
  const contents = createContentsDigest()
  const names = createSortedNames<NamedEntry & { line: number }>()
  let before = ''
  let number = 1
  let [count, bytes] = [0, 0]
  for (const line of lines) {
    number++
    if (line.startsWith('end ')) {
      const own = digits === fullDigits ? { treeSha256: canonical.end(), contentsSha256: contents.end() } : null
      const said = readEnd(line, { number, count, own })
      if (lines.next().done !== true) throw broken(number + 1, 'the tree continues after its end')
      naming(number, () => names.end())
      return { count, bytes, ...said }
    }
    if (count === maxTreeEntries) throw tooLarge(`it has more than ${maxTreeEntries} entries`)
    const entry = readCheckedEntry(line, number, digits)
    const { path, mode, size } = entry
    if (count > 0 && compareTreePaths(before, path) >= 0) throw unsorted(number, before, path)
    const above = names.add({ path, kind: mode === linkMode ? 'symlink' : 'file', line: number })
    if (above !== null) throw broken(above.entry.line, reasonOf(above.refusal))
    before = path
    count++
    bytes += size
    if (digits !== fullDigits) continue
    canonical.add(entry)
    contents.add(entry)
  }
  throw broken(number + 1, 'the line "end" is missing')
}

/** `own` are the digests of the entries, if they have all digits. */
function readEnd(
  line: string,
  { number, count, own }: { number: number; count: number; own: Pick<Checked, 'treeSha256' | 'contentsSha256'> | null }
): Pick<Checked, 'treeSha256' | 'contentsSha256'> {
  const [, given, treeSha256 = '', contentsSha256] = endPattern.exec(line) ?? []
  if (given === undefined || (contentsSha256 === undefined) !== (own !== null)) {
    const more = own === null ? ' <SHA-256 of the contents>' : ''
    throw broken(number, `expected "end <number of entries> <SHA-256>${more}"`)
  }
  if (Number(given) !== count) throw broken(number, `the tree has ${count} entries, not ${given}`)
  if (own === null) return { treeSha256, contentsSha256: contentsSha256 as string }
  if (own.treeSha256 !== treeSha256) throw broken(number, 'the SHA-256 does not match the entries')
  return own
}

function* entriesOf(text: Buffer, digits: Digits): Generator<TimedEntry> {
  let isFirst = true
  for (const line of linesOf(text)) {
    if (isFirst) {
      isFirst = false
      continue
    }
    if (line.startsWith('end ')) return
    yield splitEntry(line, digits)
  }
}

/** Reads the line of an entry that was checked. */
function splitEntry(line: string, digits: Digits): TimedEntry {
  const digest = line.indexOf(' ', modeDigits + 1) + 1
  const time = digest + digits + 1
  const name = line.indexOf(' ', time) + 1
  return {
    path: line.slice(name),
    mode: Number.parseInt(line.slice(0, modeDigits), 8),
    size: Number(line.slice(modeDigits + 1, digest - 1)),
    sha256: line.slice(digest, digest + digits),
    mtimeMs: Number(line.slice(time, name - 1))
  }
}

function checkUtf8(text: Buffer): void {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  try {
    for (let at = 0; at < text.length; at += pieceBytes) {
      decoder.decode(text.subarray(at, at + pieceBytes), { stream: at + pieceBytes < text.length })
    }
  } catch {
    throw broken(1, 'the text is not valid UTF-8')
  }
}

const pieceBytes = 64 * 1024
const gzipMagic = Buffer.from([0x1f, 0x8b])
/** The last four bytes of gzip data contain the inflated size. */
const sizeBytes = 4

function inflate(body: Buffer): Buffer {
  if (!isGzip(body)) {
    if (body.length > maxTreeBytes) throw tooLarge(`it has more than ${formatBytes(maxTreeBytes)}`)
    return body
  }
  const most = Math.min(maxTreeBytes, Math.max(ratioFromBytes, body.length * maxRatio))
  const said = body.length < sizeBytes ? 0 : body.readUInt32LE(body.length - sizeBytes)
  try {
    // One piece of memory for all: pieces would be joined, which takes twice the size.
    return gunzipSync(body, { maxOutputLength: most, chunkSize: Math.max(minChunkBytes, Math.min(said, most) + 1) })
  } catch (error) {
    if (hasCode(error, 'ERR_BUFFER_TOO_LARGE')) throw tooLarge(whyTooLarge(most))
    if (!hasCode(error, 'Z_DATA_ERROR', 'Z_BUF_ERROR', 'Z_MEM_ERROR')) throw error
    throw brokenGzip()
  }
}

/** Whether bytes begin like gzip data, which a tree never does. */
export function isGzip(bytes: Buffer): boolean {
  return bytes.subarray(0, gzipMagic.length).equals(gzipMagic)
}

/** Returns the 400 for a compressed tree that cannot be inflated. */
export function brokenGzip(): Refusal {
  return new Refusal('invalid', 'broken_gzip', 'The body is not valid gzip data')
}

const minChunkBytes = 1024

function whyTooLarge(most: number): string {
  if (most === maxTreeBytes) return `it has more than ${formatBytes(maxTreeBytes)}`
  return `it inflates to more than ${maxRatio} times its size`
}

/** Returns the 413 for a tree. */
export function tooLarge(why: string): Refusal {
  return new Refusal('too_large', 'tree_too_large', `The tree is too large: ${why}`)
}

const newline = 10

/** Yields the lines of a text. */
function* linesOf(text: Buffer): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf(newline, at)
    yield text.toString('utf8', at, end)
    at = end + 1
  }
}

/** Reads the line of an entry, and checks what it says. Refuses 400 `invalid_tree` with the number of the line. */
function readCheckedEntry(line: string, number: number, digits: Digits): TimedEntry {
  const entry = readEntry(line, number, digits)
  checkEntry(entry, number)
  return entry
}

function readEntry(line: string, number: number, digits: Digits): TimedEntry {
  const match = entryPattern.exec(line)
  if (match?.[3]?.length !== digits) throw broken(number, 'expected "<mode> <size> <SHA-256> <time> <path>"')
  const [, modeText = '', sizeText, sha256 = '', timeText, path = ''] = match
  return { path, mode: Number.parseInt(modeText, 8), size: Number(sizeText), sha256, mtimeMs: Number(timeText) }
}

function checkEntry({ path, mode, size, mtimeMs }: TimedEntry, number: number): void {
  const modeText = mode.toString(8).padStart(modeDigits, '0')
  if (mode !== linkMode && (!filePattern.test(modeText) || mode === noPermissions)) {
    throw broken(number, `the mode ${modeText} is not that of a file (100644) or a link (120777)`)
  }
  if (!Number.isSafeInteger(size)) throw broken(number, 'the size is too large')
  if (Math.abs(mtimeMs) > maxTimeMs) throw broken(number, 'the time is out of range')
  naming(number, () => {
    const clean = readName(path, { windows: process.platform === 'win32' })
    if (clean !== path) throw broken(number, `${quoteName(path)}: write the path as ${quoteName(clean)}`)
  })
}

const modeDigits = 6
/** Maximum of a date in JavaScript. */
const maxTimeMs = 8.64e15

/** Runs a check of names, and names the line in its refusal. */
function naming(number: number, check: () => void): void {
  try {
    check()
  } catch (error) {
    if (error instanceof Refusal && error.code !== brokenCode) throw broken(number, reasonOf(error))
    throw error
  }
}

/** The sentences of names.ts are about an archive. */
function reasonOf({ message }: Error): string {
  return message.replace(/^Cannot extract the archive: /, '')
}

/** Returns the 400 for a line that does not come after the one before it. */
function unsorted(number: number, before: string, path: string): Refusal {
  const why = before === path ? 'is given twice' : `must come before ${quoteName(before)}`
  return broken(number, `${quoteName(path)} ${why}`)
}

/** Returns the 400 for a line of a tree. */
function broken(number: number, why: string): Refusal {
  return new Refusal('invalid', brokenCode, `The tree is invalid in line ${number}: ${why}`)
}

const brokenCode = 'invalid_tree'

/*
 * Checks the names of files and links against each other, like `checkNames` of names.ts, if they come sorted by their
 * UTF-8 bytes. All paths that begin with the same text then follow each other, so only the entries whose names begin
 * the current one are kept, whatever the number of entries.
 */

export function createSortedNames<Entry extends NamedEntry>() {
  const found = { directories: 0, characters: 0 }
  /** Each one's path begins the next one's. */
  const beginning: Entry[] = []
  let before = ''
  let entries = 0

  /** Counts the directories above `path` that are not above `before`: nothing earlier is below them. */
  function countDirectories(path: string): void {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      if (before.startsWith(path.slice(0, end + 1))) return
      found.directories++
      found.characters += end
    }
  }

  return {
    /** Takes the next entry. Returns the refusal (file_and_directory, written_through_link) of an earlier one, or null. */
    add(entry: Entry): { entry: Entry; refusal: Error } | null {
      const { path } = entry
      while (beginning.length > 0 && !path.startsWith(beginning.at(-1)?.path ?? '')) beginning.pop()
      const above = beginning.find(({ path: start }) => path[start.length] === '/')
      beginning.push(entry)
      countDirectories(path)
      before = path
      entries++
      return above === undefined ? null : { entry: above, refusal: refuseAbove(above) }
    },
    /** Refuses (`invalid`): too_many_directories. */
    end: (): void => checkDirectories(found, entries, before)
  }
}

/* Applies what distinguishes a tree from an earlier one, its base (base/shared/tree-delta.ts), to that one. */

/**
 * Applies a delta, which may be compressed with gzip, to its base, which is sorted. Refuses: 400 `invalid_tree` with the
 * number of the line, 400 `broken_gzip`, 413 `tree_too_large`, and 409 `base_differs` if the result is not the wanted
 * tree: the client made the delta from another base.
 */
export function applyDelta(
  body: Uint8Array,
  { base, treeSha256: wanted }: { base: readonly TimedEntry[]; treeSha256: string }
): { entries: TimedEntry[]; changed: ReadonlySet<TimedEntry> } {
  const lines = linesOf(textOf(body))
  if (lines.next().value !== deltaHead) throw broken(1, `expected "${deltaHead}"`)
  const entries: TimedEntry[] = []
  const changed = new Set<TimedEntry>()
  const digest = createTreeDigest()
  let [at, number, before] = [0, 1, '']

  function take(entry: TimedEntry): void {
    if (entries.length === maxTreeEntries) throw tooLarge(`it has more than ${maxTreeEntries} entries`)
    entries.push(entry)
    digest.add(entry)
  }
  /** Takes the entries of the base before a path, and passes over the one at the path. Returns whether there is one. */
  function takeBaseTo(path: string | null): boolean {
    for (; at < base.length; at++) {
      const entry = base[at] as TimedEntry
      const order = path === null ? -1 : compareTreePaths(entry.path, path)
      if (order > 0) return false
      if (order === 0) return at++ >= 0
      take(entry)
    }
    return false
  }

  for (const line of lines) {
    number++
    const [, count, treeSha256] = /^end (\d{1,9}) ([0-9a-f]{64})$/.exec(line) ?? []
    if (count !== undefined) {
      if (Number(count) !== number - 2) throw broken(number, `the delta has ${number - 2} lines, not ${count}`)
      if (lines.next().done !== true) throw broken(number + 1, 'the delta continues after its end')
      takeBaseTo(null)
      if (treeSha256 !== wanted || digest.end() !== wanted) throw baseDiffers()
      return { entries, changed }
    }
    const isGone = line.startsWith(goneMark)
    const entry = isGone ? null : readCheckedEntry(line, number, fullDigits)
    const path = entry?.path ?? line.slice(goneMark.length)
    if (number > 2 && compareTreePaths(before, path) >= 0) throw unsorted(number, before, path)
    before = path
    if (!takeBaseTo(path) && isGone) throw baseDiffers()
    if (entry === null) continue
    take(entry)
    changed.add(entry)
  }
  throw broken(number + 1, 'the line "end" is missing')
}

function baseDiffers(): Refusal {
  const sentence = 'The changes belong to another release than the one that they name. Send the whole archive'
  return new Refusal('conflict', 'base_differs', sentence, { field: 'tree' })
}
