/*
 * Reads from a target (§4.4): listings, previews, downloads.
 *
 * Every path is checked after its links are resolved. Any file whose real path is within the target can be listed,
 * whatever its name; nothing else can. The caller that opens a file decides which files may not be shown (`inspect`). A
 * link that leads out of the target is listed as an entry of size 0 that is not a directory. Hiding it would make the
 * listing wrong. Opening it is refused.
 */

import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, opendir, realpath } from 'node:fs/promises'
import { isAbsolute, join, relative, sep } from 'node:path'
import { isInside, nameOfDescriptor, placeOfDescriptor, stagingPrefix } from '../../base/files.js'
import { invalid, reasonOf, Refusal } from '../../base/errors.js'
import type { FileContent, FileEntry } from '../../model/manifest.js'
import { holdTargetAsync, lookOnlyFlags } from './held.js'
import { regularFileFlags } from './disk.js'

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

/** File extensions of each language. The names are those that editors and highlighters use. */
const endings: Record<string, string> = {
  bash: 'sh bash zsh ksh',
  bat: 'bat cmd',
  c: 'c h',
  clojure: 'clj cljs edn',
  cpp: 'cc cpp cxx hpp hh hxx',
  csharp: 'cs',
  css: 'css',
  dart: 'dart',
  diff: 'diff patch',
  elixir: 'ex exs',
  erlang: 'erl hrl',
  fsharp: 'fs fsx',
  go: 'go',
  graphql: 'graphql gql',
  groovy: 'groovy gradle',
  haskell: 'hs',
  html: 'html htm xhtml',
  ini: 'ini cfg conf properties',
  java: 'java',
  javascript: 'js mjs cjs jsx',
  json: 'json jsonc json5 map webmanifest',
  julia: 'jl',
  kotlin: 'kt kts',
  less: 'less',
  lua: 'lua',
  markdown: 'md markdown mdx',
  nginx: 'nginx',
  nim: 'nim',
  perl: 'pl pm',
  php: 'php phtml',
  powershell: 'ps1 psm1',
  protobuf: 'proto',
  python: 'py pyi pyw',
  r: 'r',
  ruby: 'rb rake gemspec',
  rust: 'rs',
  sass: 'sass',
  scala: 'scala sc',
  scss: 'scss',
  sql: 'sql',
  svelte: 'svelte',
  swift: 'swift',
  terraform: 'tf hcl',
  toml: 'toml',
  typescript: 'ts mts cts tsx',
  vue: 'vue',
  xml: 'xml svg xsl xsd rss atom plist',
  yaml: 'yaml yml',
  zig: 'zig'
}

/** Files that are recognized by their whole name. */
const names: Record<string, string> = {
  dockerfile: 'dockerfile',
  containerfile: 'dockerfile',
  makefile: 'makefile',
  gnumakefile: 'makefile',
  'cmakelists.txt': 'cmake',
  jenkinsfile: 'groovy',
  gemfile: 'ruby',
  rakefile: 'ruby',
  vagrantfile: 'ruby',
  'nginx.conf': 'nginx',
  '.bashrc': 'bash',
  '.profile': 'bash',
  '.env': 'ini',
  '.editorconfig': 'ini',
  '.npmrc': 'ini',
  '.babelrc': 'json',
  '.eslintrc': 'json',
  '.prettierrc': 'json',
  '.htaccess': 'apache',
  'go.mod': 'go'
}

const byEnding = new Map(
  Object.entries(endings).flatMap(([language, list]) => list.split(' ').map(ending => [ending, language] as const))
)

/** Returns the language of a file by its name (§2.4), or `plaintext` if it is unknown. */
export function languageOf(name: string): string {
  const lower = name.toLowerCase()
  const known = Object.hasOwn(names, lower) ? names[lower] : undefined
  if (known !== undefined) return known
  if (lower.startsWith('.env.')) return 'ini'
  if (lower.startsWith('dockerfile.')) return 'dockerfile'
  const dot = lower.lastIndexOf('.')
  return (dot === -1 ? undefined : byEnding.get(lower.slice(dot + 1))) ?? 'plaintext'
}

/** Limits of a walk. The panel waits for the result, so a walk stops early. */
export interface WalkLimits {
  maxEntries: number
  /** Time of `performance.now()` at which the walk stops. */
  deadlineMs: number
}

/** A deeper tree is not measured: each level keeps two descriptors open. */
const maxDepth = 100
const directoryFlags = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NONBLOCK ?? 0)

/**
 * Returns the total size in bytes of the files below a directory. Links are not followed, and a file with several names
 * counts once. Returns null if the directory is missing, unreadable, or exceeds the limits. A directory that its owner
 * replaces with a link in the meantime is not followed either: each directory is opened by its name in the one above
 * it.
 */
export async function measureTree(directory: string, limits: WalkLimits): Promise<number | null> {
  const counted = new Set<string>()
  let entries = 0

  async function measure(place: string, flags: number, depth: number): Promise<number> {
    if (depth > maxDepth) throw new Error('The tree is too deep')
    const handle = await open(place, flags)
    try {
      return await measureOpened(handle, place, depth)
    } finally {
      await handle.close()
    }
  }

  async function measureOpened({ fd }: FileHandle, place: string, depth: number): Promise<number> {
    const here = nameOfDescriptor(fd, place)
    let bytes = 0
    for await (const entry of await opendir(here)) {
      if (++entries > limits.maxEntries || performance.now() > limits.deadlineMs)
        throw new Error('The tree is too large')
      const path = `${here}/${entry.name}`
      if (entry.isDirectory()) bytes += await measure(path, directoryFlags | (constants.O_NOFOLLOW ?? 0), depth + 1)
      else if (entry.isFile()) bytes += sizeOnce(await lstat(path).catch(() => null), counted)
    }
    return bytes
  }

  return measure(directory, directoryFlags, 0).catch(() => null)
}

function sizeOnce(stats: Stats | null, counted: Set<string>): number {
  if (stats === null) return 0
  if (stats.nlink > 1) {
    const id = `${stats.dev}:${stats.ino}`
    if (counted.has(id)) return 0
    counted.add(id)
  }
  return stats.size
}
