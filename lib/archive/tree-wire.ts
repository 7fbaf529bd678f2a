/*
 * A tree as a request body, `text/vnd.svc-tree`, sorted by path (`compareTreePaths`):
 *
 *   svc-tree 1 64
 *   <type and permissions, 6 octal digits> <size> <SHA-256 in hex> <modification time in ms> <path>
 *   end <number of entries> <SHA-256 of the canonical text>
 *
 * The canonical text (shared/tree-text.ts) is the same without times. 64 is the number of hex digits of each digest.
 * Names of entries must be names that an archive may have (names.ts).
 */
import { Refusal } from '../base/refusal.js'
import { createTreeDigest } from '../model/tree.js'
import { compareTreePaths, linkMode } from '../shared/tree-text.js'
import { checkNames, quoteName, readName } from './names.js'
import type { TimedEntry } from './tree.js'

/** The media type of the body. */
export const treeMediaType = 'text/vnd.svc-tree'
/** Maximum number of entries of a tree: as many as an archive may have. */
export const maxTreeEntries = 200_000
/** Maximum size of the text in bytes. */
export const maxTreeBytes = 64 * 1024 * 1024

const head = 'svc-tree 1 64'
const entryPattern = /^([0-7]{6}) (\d{1,16}) ([0-9a-f]{64}) (-?\d{1,16}) (.+)$/
const endPattern = /^end (\d{1,9}) ([0-9a-f]{64})$/
/** A regular file with at least one permission bit. */
const filePattern = /^100[0-7]{3}$/
const noPermissions = 0o100000

/** Returns the body of a tree, in pieces. */
export function* writeTree(entries: readonly TimedEntry[], treeSha256: string): Generator<string> {
  yield `${head}\n`
  for (const { mode, size, sha256, mtimeMs, path } of entries) {
    yield `${mode.toString(8)} ${size} ${sha256} ${mtimeMs} ${path}\n`
  }
  yield `end ${entries.length} ${treeSha256}\n`
}

/** A received tree. */
export interface ReceivedTree {
  entries: TimedEntry[]
  treeSha256: string
}

/**
 * Reads the body of a tree. Refuses: 400 `invalid_tree` with the number of the line, 413 `tree_too_large`.
 */
export function readTree(body: Uint8Array): ReceivedTree {
  const text = decode(body)
  if (!text.endsWith('\n')) throw broken(1, 'the last line is incomplete')
  const lines = linesOf(text)
  const first = lines.next()
  if (first.done || first.value !== head) throw broken(1, `expected "${head}"`)
  const entries: TimedEntry[] = []
  const digest = createTreeDigest()
  let before = ''
  let number = 1
  for (const line of lines) {
    number++
    if (line.startsWith('end ')) {
      const treeSha256 = digest.end()
      if (line !== `end ${entries.length} ${treeSha256}`) throw broken(number, whyWrongEnd(line, entries.length))
      if (lines.next().done !== true) throw broken(number + 1, 'the tree continues after its end')
      checkTogether(entries)
      return { entries, treeSha256 }
    }
    if (entries.length === maxTreeEntries) throw tooLarge(`it has more than ${maxTreeEntries} entries`)
    const entry = readEntry(line, number)
    if (entries.length > 0 && compareTreePaths(before, entry.path) >= 0) throw unsorted(number, before, entry.path)
    before = entry.path
    digest.add(entry)
    entries.push(entry)
  }
  throw broken(number + 1, 'the line "end" is missing')
}

/** Returns the 413 for a tree. */
export function tooLarge(why: string): Refusal {
  return new Refusal('too_large', 'tree_too_large', `The tree is too large: ${why}`)
}

function decode(body: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    throw broken(1, 'the text is not valid UTF-8')
  }
}

function* linesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at)
    yield text.slice(at, end)
    at = end + 1
  }
}

function readEntry(line: string, number: number): TimedEntry {
  const match = entryPattern.exec(line)
  if (match === null) throw broken(number, 'expected "<mode> <size> <SHA-256> <time> <path>"')
  const [, modeText = '', sizeText, sha256 = '', timeText, path = ''] = match
  const mode = Number.parseInt(modeText, 8)
  if (mode !== linkMode && (!filePattern.test(modeText) || mode === noPermissions)) {
    throw broken(number, `the mode ${modeText} is not that of a file (100644) or a link (120777)`)
  }
  const [size, mtimeMs] = [Number(sizeText), Number(timeText)]
  if (!Number.isSafeInteger(size)) throw broken(number, 'the size is too large')
  if (Math.abs(mtimeMs) > maxTimeMs) throw broken(number, 'the time is out of range')
  checkName(path, number)
  return { path, mode, size, sha256, mtimeMs }
}

/** Maximum of a date in JavaScript. */
const maxTimeMs = 8.64e15

function checkName(path: string, number: number): void {
  let clean: string
  try {
    clean = readName(path, { windows: process.platform === 'win32' })
  } catch (error) {
    if (error instanceof Refusal) throw broken(number, reasonOf(error))
    throw error
  }
  if (clean !== path) throw broken(number, `${quoteName(path)}: write the path as ${quoteName(clean)}`)
}

/** Checks names against each other: a file that is also a directory, or lies below a link. */
function checkTogether(entries: readonly TimedEntry[]): void {
  const named = entries.map(({ path, mode }) => ({ path, kind: mode === linkMode ? 'symlink' : 'file' }) as const)
  try {
    // Whether the file system of the target folds names is found out by the deployment.
    checkNames(named, { windows: false, folds: () => ({ letterCase: false, normalForm: false }) })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const at = entries.findIndex(({ path }) => error.message.includes(`${quoteName(path)}:`))
    throw broken(at + firstEntryLine, reasonOf(error))
  }
}

const firstEntryLine = 2

/** The sentences of names.ts are about an archive. */
function reasonOf({ message }: Refusal): string {
  return message.replace(/^Cannot extract the archive: /, '')
}

function whyWrongEnd(line: string, count: number): string {
  const [, given] = endPattern.exec(line) ?? []
  if (given === undefined) return 'expected "end <number of entries> <SHA-256>"'
  if (Number(given) !== count) return `the tree has ${count} entries, not ${given}`
  return 'the SHA-256 does not match the entries'
}

function unsorted(number: number, before: string, path: string): Refusal {
  const why = before === path ? 'is given twice' : `must come before ${quoteName(before)}`
  return broken(number, `${quoteName(path)} ${why}`)
}

function broken(number: number, why: string): Refusal {
  return new Refusal('invalid', 'invalid_tree', `The tree is invalid in line ${number}: ${why}`)
}
