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
import { mkdir, readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { replaceFile } from '../../base/files.js'
import { locateHome } from '../../base/config/home.js'
import type { SourceTree } from '../../core/archive/tree.js'
import type { BaseEntry } from '../../base/shared/tree-delta.js'
import type { ZipSource } from '../../core/archive/source.js'
import type { Context } from '../command.js'

/** The index of one project on one server. */
export interface PushIndex {
  /** The tree that the server got last; null: none is known. */
  treeSha256: string | null
  /** The entries of that tree. */
  entries: ReadonlyMap<string, BaseEntry>
  /** Returns the digest of a file that is as it was; undefined: it must be read. */
  known(source: ZipSource): string | undefined
}

/** The tree that was pushed, and its sources. */
export interface PushedTree extends SourceTree {
  sources: readonly ZipSource[]
  /** When the sources were looked up, in milliseconds since 1970. */
  walkedMs: number
}

/** An index that knows nothing. */
export const emptyIndex: PushIndex = { treeSha256: null, entries: new Map(), known: () => undefined }

/** Times of files are that coarse on some file systems, and clocks of servers of files differ. */
const racyMs = 2000
const format = 'svc-index 1'

interface Head {
  /** The machine that the inodes are of. */
  host: string
  walkedMs: number
  treeSha256: string
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
  const text = await readFile(path, 'utf8').catch(() => '')
  const end = text.lastIndexOf('end ')
  if (end === -1 || text.slice(end) !== endOf(text.slice(0, end))) return emptyIndex
  const [first = '', ...lines] = text.slice(0, end - 1).split('\n')
  if (!first.startsWith(`${format} `)) return emptyIndex
  const { host, walkedMs, treeSha256 } = JSON.parse(first.slice(format.length)) as Head
  if (host !== hostname()) return emptyIndex
  const entries = new Map<string, BaseEntry>()
  const marks = new Map<string, string>()
  for (const line of lines) {
    const [size = '', mtime = '', ctime = '', ino = '', dev = '', mode = '', sha256 = ''] = line.split(' ', 7)
    const mark = `${size} ${mtime} ${ctime} ${ino} ${dev}`
    const path = line.slice(`${mark} ${mode} ${sha256} `.length)
    entries.set(path, { path, size: Number(size), mode: Number.parseInt(mode, 8), sha256 })
    if (Math.max(Number(mtime), Number(ctime)) < walkedMs - racyMs) marks.set(path, mark)
  }
  return {
    treeSha256,
    entries,
    known: source => (marks.get(source.path) === markOf(source) ? entries.get(source.path)?.sha256 : undefined)
  }
}

/** Writes the index of a pushed tree. It is lost if it cannot be written: the next push reads every file. */
export async function writeIndex(path: string, { entries, sources, treeSha256, walkedMs }: PushedTree): Promise<void> {
  const head: Head = { host: hostname(), walkedMs, treeSha256 }
  const bySource = new Map(sources.map(source => [source.path, source]))
  const lines = entries.map(({ path, mode, sha256, size }) => {
    const source = bySource.get(path)
    const mark = source?.kind === 'file' ? markOf(source) : `${size} 0 0 0 0`
    return `${mark} ${mode.toString(8)} ${sha256} ${path}\n`
  })
  const text = `${format} ${JSON.stringify(head)}\n${lines.join('')}`
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await replaceFile(path, text + endOf(text), 0o600)
  } catch {
    // A read-only home: it only saves work.
  }
}

function endOf(text: string): string {
  return `end ${createHash('sha256').update(text).digest('hex')}\n`
}

function markOf({ bytes, mtimeMs, seen }: ZipSource): string {
  return `${bytes} ${mtimeMs} ${seen?.ctimeMs ?? 0} ${seen?.ino ?? 0} ${seen?.dev ?? 0}`
}
