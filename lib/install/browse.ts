/*
 * Reads from a target (§4.4): listings, previews, downloads.
 *
 * Every path is checked after its links are resolved. Any file whose real path is within the target can be listed,
 * whatever its name; nothing else can. The caller that opens a file decides which files may not be shown (`inspect`). A
 * link that leads out of the target is listed as an entry of size 0 that is not a directory. Hiding it would make the
 * listing wrong. Opening it is refused.
 */
import { constants, type Stats } from 'node:fs'
import { lstat, open, opendir, realpath, type FileHandle } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import { isInside, nameOfDescriptor, placeOfDescriptor, stagingPrefix } from '../base/files.js'
import { invalid, reasonOf, Refusal } from '../base/errors.js'
import type { FileContent, FileEntry } from '../model/file-entry.js'
import { lookOnlyFlags } from './held.js'
import { languageOf } from './language.js'
import { holdTargetAsync } from './reach.js'
import { regularFileFlags } from './regular.js'

/** Maximum size of a preview; larger content is answered as binary (§8). */
export const maxPreviewBytes = 1024 * 1024
/** Maximum number of entries in one listing; the listing of a larger directory is cut off. */
export const maxListedEntries = 10_000
/** Number of stat calls in progress at a time. */
const statBatch = 64

/** An open file of a target. The receiver must close it. */
export interface OpenedFile {
  handle: FileHandle
  /** Its real path. */
  path: string
  name: string
  size: number
  mtimeMs: number
}

/**
 * Returns the entries of a directory, directories first, then sorted by name; at most `maxListedEntries`. `path` is
 * relative to the target; `''` is the target itself. Refuses: 400 invalid_field, 403 outside_target, 404 not_found, 400
 * not_a_directory.
 */
export async function listDirectory(target: string, path: string): Promise<FileEntry[]> {
  const { root, handle, real } = await openWithin(target, path, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0))
  try {
    return await list({ root, directory: nameOfDescriptor(handle.fd, real), path })
  } finally {
    await handle.close()
  }
}

/** `root` is the real path of the target. `directory` is the path to use in calls (held.ts). */
async function list({
  root,
  directory,
  path
}: {
  root: string
  directory: string
  path: string
}): Promise<FileEntry[]> {
  const names: string[] = []
  const opened = await opendir(directory).catch(error => {
    throw explain(error, path)
  })
  for await (const { name } of opened) {
    if (name.startsWith(stagingPrefix)) continue
    names.push(name)
    if (names.length === maxListedEntries) break
  }
  const prefix = normalise(path)
  const entries: FileEntry[] = []
  for (let from = 0; from < names.length; from += statBatch) {
    const batch = names.slice(from, from + statBatch)
    const found = await Promise.all(batch.map(name => describe({ root, directory, prefix }, name)))
    for (const entry of found) if (entry !== null) entries.push(entry)
  }
  return entries.sort(byKindAndName)
}

function byKindAndName(a: FileEntry, b: FileEntry): number {
  if (a.isDir !== b.isDir) return a.isDir ? -1 : 1
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}

interface Listed {
  /** The real path of the target. */
  root: string
  /** The path to use in calls (held.ts). */
  directory: string
  /** The path of the directory relative to the target. */
  prefix: string
}

/** Describes one entry. Returns null if the entry was removed in the meantime. */
async function describe({ root, directory, prefix }: Listed, name: string): Promise<FileEntry | null> {
  const place = join(directory, name)
  try {
    const own = await lstat(place)
    const stats = own.isSymbolicLink() ? ((await behindLink(root, place)) ?? own) : own
    return {
      name,
      path: prefix === '' ? name : `${prefix}/${name}`,
      isDir: stats.isDirectory(),
      isHidden: name.startsWith('.'),
      size: stats.isFile() ? stats.size : 0,
      mtime: stats.mtime.toISOString()
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Returns the stats of the target of a link if that is within the project's directory, otherwise null. */
async function behindLink(root: string, place: string): Promise<Stats | null> {
  const handle = await open(place, lookOnlyFlags).catch(() => null)
  if (handle === null) return null
  try {
    return isInside(root, placeOfDescriptor(handle.fd) ?? (await realpath(place))) ? await handle.stat() : null
  } catch {
    return null
  } finally {
    await handle.close()
  }
}

/**
 * Returns a file in the form that the panel shows (§2.4). Valid UTF-8 without NUL, up to `maxPreviewBytes`, is text;
 * anything else is binary. Closes the file.
 */
export async function readPreview({ handle, name, size }: OpenedFile): Promise<FileContent> {
  try {
    if (size > maxPreviewBytes) return { type: 'binary', size, message: 'The file is larger than 1 MB' }
    const bytes = await readUpTo(handle, maxPreviewBytes + 1)
    if (bytes.length > maxPreviewBytes) {
      return { type: 'binary', size: bytes.length, message: 'The file is larger than 1 MB' }
    }
    const content = decode(bytes)
    if (content === null) return { type: 'binary', size: bytes.length, message: 'The file is not text' }
    return { type: 'text', content, language: languageOf(name) }
  } finally {
    await handle.close()
  }
}

async function readUpTo(handle: FileHandle, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  while (length < limitBytes) {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(Math.min(64 * 1024, limitBytes - length)))
    if (bytesRead === 0) break
    chunks.push(buffer.subarray(0, bytesRead))
    length += bytesRead
  }
  return Buffer.concat(chunks, length)
}

function decode(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}

/** Checks an open file before it is read. Throws to refuse it. */
export type Inspect = (file: OpenedFile) => Promise<unknown>

/**
 * Opens a regular file of the target for reading. Refuses: 400 invalid_field, not_a_file; 403 outside_target; 404
 * not_found; and whatever `inspect` refuses.
 */
export async function openFile(target: string, path: string, inspect?: Inspect): Promise<OpenedFile> {
  const { handle, real } = await openWithin(target, path, regularFileFlags)
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Refusal('invalid', 'not_a_file', `Cannot show "${path}": not a regular file`)
    const name = real.slice(real.lastIndexOf(sep) + 1)
    const file = { handle, path: real, name, size: stats.size, mtimeMs: stats.mtimeMs }
    await inspect?.(file)
    return file
  } catch (error) {
    await handle.close()
    throw error
  }
}

interface OpenedWithin {
  /** The real path of the target. */
  root: string
  handle: FileHandle
  /** The real path of the opened file or directory. */
  real: string
}

/**
 * Opens a path of the target after its links are resolved, and checks the real path of the result again: a directory on
 * the way may have become a link in between.
 */
async function openWithin(target: string, path: string, flags: number): Promise<OpenedWithin> {
  checkPath(path)
  const held = await holdTargetAsync(target).catch(error => {
    throw explain(error, path)
  })
  try {
    const found = await realpath(join(held.path, path)).catch(error => {
      throw explain(error, path)
    })
    checkInside(held.real, found, path)
    const handle = await open(found, flags | (constants.O_NOFOLLOW ?? 0)).catch(error => {
      throw explain(error, path)
    })
    try {
      const real = placeOfDescriptor(handle.fd) ?? found
      checkInside(held.real, real, path)
      return { root: held.real, handle, real }
    } catch (error) {
      await handle.close()
      throw error
    }
  } finally {
    held.close()
  }
}

function checkPath(path: string): void {
  if (path.includes('\0')) throw invalid('path', 'Invalid path: it contains a NUL character')
  if (isAbsolute(path)) throw invalid('path', `Invalid path: "${path}" must be relative to the deployPath`)
  const segments = path.split(/[\\/]/)
  if (segments.includes('..')) throw outside(path)
  if (segments.some(segment => segment.startsWith(stagingPrefix))) throw missing(path)
}

/** Refuses a real path that is not within the target, or is in a staging directory. `path` is what was asked for. */
export function checkInside(root: string, real: string, path: string): void {
  if (!isInside(root, real)) throw outside(path)
  if (relative(root, real).startsWith(stagingPrefix)) throw missing(path)
}

function normalise(path: string): string {
  return path
    .split('/')
    .filter(segment => segment !== '' && segment !== '.')
    .join('/')
}

function outside(path: string): Refusal {
  return new Refusal('forbidden', 'outside_target', `Cannot open "${path}": it is outside the project's directory`)
}

function missing(path: string): Refusal {
  return new Refusal('not_found', 'not_found', `Cannot open "${path}": no such file in the project's directory`)
}

function explain(error: NodeJS.ErrnoException, path: string): Error {
  switch (error.code) {
    case 'ENOENT':
      return missing(path)
    case 'ENOTDIR':
      return new Refusal('invalid', 'not_a_directory', `Cannot list "${path}": ${reasonOf(error)}`)
    case 'ELOOP':
      return new Refusal('forbidden', 'outside_target', `Cannot open "${path}": ${reasonOf(error)}`)
    case 'ENAMETOOLONG':
      return invalid('path', `Invalid path: ${reasonOf(error)}`)
    case 'EACCES':
    case 'EPERM':
      return new Refusal('forbidden', 'not_readable', `Cannot open "${path}": ${reasonOf(error)}`)
    case 'ENXIO':
      return new Refusal('invalid', 'not_a_file', `Cannot show "${path}": not a regular file`)
    default:
      return error
  }
}
