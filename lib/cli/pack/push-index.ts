/*
 * The index of pushes: `index/<hash of project and server>.idx` in the directory of the configuration. It says for each
 * file which digest it had when it had this size, these times and this inode, and which tree the server got last.
 * It only saves work: without it, every file is read.
 *
 *   svc-index 1 <JSON of the head>
 *   <size> <mtime in ms> <ctime in ms> <inode> <device> <type and permissions> <SHA-256> <path>      one for each file
 *   end <SHA-256 of everything above>
 *
 * A file is believed if all five numbers are the same, and both times are older than the walk that found it: what is
 * written in the same moment may leave them as they are (git's "racy" entries). Times that lie in the future of the
 * index, as after a clock was set back, are not believed either.
 */
import type { Client } from '../client/client.js'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { isRacy, makeDirectories, replaceFile } from '../../base/files.js'
import { locateHome } from '../../base/config/home.js'
import { sha256 } from '../../base/digests.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'
import type { ReadTree, SourceTree } from '../../core/archive/tree.js'
import type { BaseEntries, BaseEntry } from '../../base/shared/tree-delta.js'
import type { ZipSource } from '../../core/archive/source.js'
import { fullDigits } from '../../model/manifest.js'
import type { Context } from '../command.js'

/** The index of one project on one server. */
export interface PushIndex {
  /** The tree that the server got last; null: none is known. */
  treeSha256: string | null
  /** The entries of that tree. */
  entries: BaseEntries
  /** Returns the digest of a file that is as it was; undefined: it must be read. */
  known(source: ZipSource): string | undefined
  /** Whether the index says all that it would say of a tree: the server had it before, and no file had to be read. */
  isOf(tree: Pick<SourceTree, 'treeSha256'>): boolean
  /** Remembers the files that had to be read and are those of the index, if they are many. */
  refresh(tree: PushedTree): Promise<void>
}

/** The tree that was pushed. */
export interface PushedTree extends ReadTree {
  /** When the sources were looked up, in milliseconds since 1970. */
  walkedMs: number
}

/** An index that knows nothing. */
export const emptyIndex: PushIndex = {
  treeSha256: null,
  entries: new Map(),
  known: () => undefined,
  isOf: () => false,
  refresh: async () => {}
}

/** Reading so many files takes longer than writing the index. */
const manyFiles = 100
/** Length of the text that is written at a time. */
const pieceLength = 256 * 1024
const format = 'svc-index 1'

interface Head {
  /** The machine that the inodes are of. */
  host: string
  walkedMs: number
  /** As of a `PushIndex`. */
  treeSha256: string | null
}

/** Returns the path of the index of a project on a server. */
export function indexPath(
  { env, cwd }: Pick<Context, 'env' | 'cwd'>,
  { projectId, address }: { projectId: string; address: string }
): string {
  const name = createHash('sha256').update(`${projectId}@${address}`).digest('hex').slice(0, 32)
  return join(locateHome(env, cwd).directory, 'index', `${name}.idx`)
}

/** Reads the index of a project, if it is used. */
export async function openIndex(
  context: Context,
  { client: { address }, projectId, isUsed }: { client: Pick<Client, 'address'>; projectId: string; isUsed: boolean }
): Promise<PushIndex> {
  return isUsed ? await readIndex(indexPath(context, { projectId, address })) : emptyIndex
}

/** Reads an index. One that is missing, damaged or of another machine knows nothing. */
export async function readIndex(path: string): Promise<PushIndex> {
  const { treeSha256, walkedMs, text } = await readLines(path)
  const entries = { values: () => entriesIn(text) }
  let unknown = 0
  const digestOf = createFinder(text)
  return {
    treeSha256,
    entries,
    known(source) {
      const { mtimeMs, seen } = source
      const digest = isRacy({ mtimeMs, ctimeMs: seen?.ctimeMs ?? 0 }, walkedMs) ? undefined : digestOf(source)
      if (digest === undefined) unknown++
      return digest
    },
    isOf: tree => unknown === 0 && tree.treeSha256 === treeSha256,
    async refresh({ entries: found, sources, walkedMs }) {
      if (unknown < manyFiles) return
      const earlier = new Map(Array.from(entriesIn(text), entry => [entry.path, entry]))
      const isKnown = ({ path, mode, size, sha256 }: BaseEntry): boolean => {
        const known = earlier.get(path)
        return known?.sha256 === sha256 && known.mode === mode && known.size === size
      }
      const [kept, same] = treeSha256 === null ? [found, found] : [[...earlier.values()], found.filter(isKnown)]
      const marked = new Set(same.map(({ path: name }) => name))
      await writeIndex(path, {
        entries: kept,
        sources: sources.filter(({ path: name }) => marked.has(name)),
        treeSha256,
        walkedMs
      })
    }
  }
}

interface Lines extends Pick<Head, 'treeSha256' | 'walkedMs'> {
  /** The lines of the files, sorted by their paths. */
  text: string
}

async function readLines(path: string): Promise<Lines> {
  const none = { treeSha256: null, walkedMs: 0, text: '' }
  const bytes = await readFile(path).catch(() => Buffer.alloc(0))
  const end = bytes.lastIndexOf('end ')
  if (end === -1 || bytes.toString('latin1', end) !== endOf(bytes.subarray(0, end))) return none
  const start = bytes.indexOf('\n') + 1
  const first = bytes.toString('utf8', 0, start)
  if (!first.startsWith(`${format} `)) return none
  const { host, walkedMs, treeSha256 } = JSON.parse(first.slice(format.length)) as Head
  if (host !== hostname()) return none
  return { treeSha256, walkedMs, text: bytes.toString('utf8', start, end) }
}

/**
 * Returns a function that finds the digest of a file that is as in its line. Files are asked for in the order of the
 * lines, so that each line is passed once, and nothing is kept of it; any other order is slower.
 */
function createFinder(text: string): (source: ZipSource) => string | undefined {
  let [next, before] = [0, '']
  return source => {
    const { path } = source
    if (path <= before) next = 0
    before = path
    const mark = `${markOf(source)} `
    while (next < text.length) {
      const start = text.startsWith(mark, next) ? text.indexOf(' ', next + mark.length) + 1 : -1
      const at = start + fullDigits + 1
      if (start !== -1 && text.startsWith(path, at) && text[at + path.length] === '\n') {
        next = at + path.length + 1
        return text.slice(start, at - 1)
      }
      const name = endOfWords(text, next, wordsBefore)
      const end = text.indexOf('\n', name)
      const order = compareTreePaths(text.slice(name, end), path)
      if (order > 0) return undefined
      next = end + 1
      if (order === 0) return undefined
    }
    return undefined
  }
}

/** Number of words before the path of a line, and of those that are compared. */
const [wordsBefore, markWords] = [7, 5]

/** Returns where the next word begins after so many words of a line. */
function endOfWords(text: string, start: number, words: number): number {
  let at = start
  for (let word = 0; word < words; word++) at = text.indexOf(' ', at) + 1
  return at
}

function* entriesIn(text: string): Generator<BaseEntry> {
  for (let at = 0; at < text.length; ) {
    const mark = endOfWords(text, at, markWords)
    const start = endOfWords(text, mark, wordsBefore - markWords)
    const end = text.indexOf('\n', start)
    const mode = Number.parseInt(text.slice(mark, start), 8)
    const size = Number.parseInt(text.slice(at, mark), 10)
    const path = text.slice(start, end)
    yield { path, size, mode, sha256: text.slice(start - fullDigits - 1, start - 1) }
    at = end + 1
  }
}

/** Writes the index of a pushed tree. It is lost if it cannot be written: the next push reads every file. */
export async function writeIndex(path: string, { entries, sources, treeSha256, walkedMs }: Indexed): Promise<void> {
  const head: Head = { host: hostname(), walkedMs, treeSha256 }
  const hash = createHash('sha256')

  function* pieces(): Generator<string> {
    let piece = `${format} ${JSON.stringify(head)}\n`
    let at = 0
    for (const { path, mode, sha256, size } of entries) {
      let source = sources[at]
      while (source !== undefined && compareTreePaths(source.path, path) < 0) source = sources[++at]
      const mark = source?.path === path && source.kind === 'file' ? markOf(source) : `${size} 0 0 0 0`
      piece += `${mark} ${mode.toString(8)} ${sha256} ${path}\n`
      if (piece.length < pieceLength) continue
      hash.update(piece)
      yield piece
      piece = ''
    }
    yield `${piece}end ${hash.update(piece).digest('hex')}\n`
  }

  try {
    await makeDirectories(dirname(path), 0o700)
    await replaceFile(path, pieces(), 0o600)
  } catch {
    // A read-only home: it only saves work.
  }
}

/** What an index says: the entries of the tree that the server got last, and the sources that are as in it, both sorted. */
interface Indexed extends Pick<PushedTree, 'sources' | 'walkedMs'> {
  entries: readonly BaseEntry[]
  treeSha256: string | null
}

function endOf(above: Uint8Array): string {
  return `end ${sha256(above).toString('hex')}\n`
}

function markOf({ bytes, mtimeMs, seen }: ZipSource): string {
  return `${bytes} ${mtimeMs} ${seen?.ctimeMs ?? 0} ${seen?.ino ?? 0} ${seen?.dev ?? 0}`
}
