/*
 * A tree, from its root down, as sources of a zip: in the order of names, so that the same tree gives the same archive.
 *
 * Symbolic links stay links while they lead to something within the root. One that leaves it is refused rather than
 * followed: what it points to was never meant to be packed, or is better copied there knowingly; the server would
 * refuse the link itself. Sockets, pipes and devices are left out, with a warning. A directory is an entry of its own
 * only where nothing below it is packed, so that empty ones exist afterwards.
 */
import { closeSync, constants, lstatSync, openSync, readdirSync, readlinkSync, realpathSync, type Stats } from 'node:fs'
import { dirname, join, resolve, sep } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { nameOfDescriptor, placeOfDescriptor } from '../base/descriptors.js'
import { isInside } from '../base/paths.js'
import { Refusal } from '../base/refusal.js'
import type { Glob } from './glob.js'
import { rootVerdict, type Ignore, type Verdict } from './ignore.js'
import { sourceChanged, type ZipSource } from './source.js'

export interface WalkOptions {
  /** Absolute, without links in it. */
  root: string
  /** Rules for what stays out; null: nothing does. */
  ignore: Ignore | null
  /** Only what one of these matches, and all below a directory that one matches; null: everything. */
  globs: readonly Glob[] | null
  /** Absolute paths that are never packed: the archive itself. */
  except: readonly string[]
  warn(sentence: string): void
  /** Another user may exchange files and directories of the tree meanwhile (`ZipSource.mayBeExchanged`). */
  mayBeExchanged?: boolean
  signal?: AbortSignal | undefined
}

/** What was decided for the directory above. */
interface Above {
  verdict: Verdict
  /** Nothing more need match. */
  isChosen: boolean
}

/**
 * What is to be packed of `start`: a path relative to the root, `''` for the root itself. `found` is called for each,
 * in their order. Refuses (`unavailable`) file_vanished and file_unreadable, (`invalid`) link_leaves_root and
 * name_not_packable.
 */
export async function walkTree(
  start: string, options: WalkOptions, found: (source: ZipSource) => void
): Promise<void> {
  const above: Above = { verdict: rootVerdict, isChosen: options.globs === null }
  const tree: Tree = { ...options, found }
  if (start === '') await walkDirectory('', above, tree)
  else await walkEntry(lookAt(start, join(options.root, start)), above, tree)
}

type Tree = WalkOptions & { found: (source: ZipSource) => void }

/** Whether anything of it was found. */
async function walkDirectory(directory: string, above: Above, tree: Tree): Promise<boolean> {
  // Lets an interrupt and a progress bar have their turn.
  await turn()
  tree.signal?.throwIfAborted()
  let hasFound = false
  const place = join(tree.root, directory)
  const before = place.endsWith(sep) ? place : place + sep
  for (const name of list(directory, tree)) {
    const path = directory === '' ? name : `${directory}/${name}`
    const result = walkEntry(lookAt(path, before + name), above, tree)
    hasFound = (typeof result === 'boolean' ? result : await result) || hasFound
  }
  return hasFound
}

interface Found {
  path: string
  absolute: string
  stats: Stats
}

/** A promise for directories only: one for each file would cost more than looking at it. */
function walkEntry({ path, absolute, stats }: Found, above: Above, tree: Tree): boolean | Promise<boolean> {
  const { ignore, globs, except, warn, found } = tree
  const isChosen = above.isChosen || (globs ?? []).some(glob => glob.matches(path))
  const verdict = ignore === null ? above.verdict : ignore.judge(path, stats.isDirectory(), above.verdict)
  if (stats.isDirectory()) return walkBelow(path, stats, { verdict, isChosen }, tree)
  if (!isChosen || verdict.isIgnored || except.includes(absolute)) return false
  if (stats.isSymbolicLink()) {
    found(linkSource(path, stats, tree.root))
  } else if (stats.isFile()) {
    const { size, mode, mtimeMs } = stats
    found({ path, kind: 'file', source: absolute, bytes: size, mode, mtimeMs, ...(tree.mayBeExchanged && { mayBeExchanged: true }) })
  } else {
    warn(`"${path}" was left out: it is neither a file, nor a directory, nor a link`)
    return false
  }
  return true
}

async function walkBelow(path: string, stats: Stats, here: Above, tree: Tree): Promise<boolean> {
  const { ignore, globs, found } = tree
  const { verdict, isChosen } = here
  if (!isChosen && !(globs ?? []).some(glob => glob.mayMatchBelow(path))) return false
  if (verdict.isIgnored && !ignore?.mayReachInto(path, verdict)) return false
  if (await walkDirectory(path, here, tree)) return true
  if (!isChosen || verdict.isIgnored) return false
  found({ path, kind: 'directory', source: '', bytes: 0, mode: stats.mode, mtimeMs: stats.mtimeMs })
  return true
}

function list(directory: string, { root, mayBeExchanged }: Tree): string[] {
  try {
    const place = join(root, directory)
    return (mayBeExchanged ? listOpened(place, directory) : readdirSync(place)).sort()
  } catch (cause) {
    if (cause instanceof Refusal) throw cause
    throw refuse(directory || root, cause as NodeJS.ErrnoException)
  }
}

/** What is in the directory that lies at a place without links, and in no other. */
function listOpened(place: string, directory: string): string[] {
  const fd = openSync(place, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0))
  try {
    const found = placeOfDescriptor(fd)
    if (found !== null && found !== place) throw sourceChanged(directory)
    return readdirSync(nameOfDescriptor(fd, place))
  } finally {
    closeSync(fd)
  }
}

function lookAt(path: string, absolute: string): Found {
  if (path.includes('\ufffd')) {
    const sentence = `"${path}" cannot be packed: its name is not valid UTF-8`
    throw new Refusal('invalid', 'name_not_packable', sentence, { field: path })
  }
  try {
    return { path, absolute, stats: lstatSync(absolute) }
  } catch (cause) {
    throw refuse(path, cause as NodeJS.ErrnoException)
  }
}

function refuse(path: string, cause: NodeJS.ErrnoException): Refusal {
  const isGone = cause.code === 'ENOENT' || cause.code === 'ENOTDIR'
  const isClosed = cause.code === 'EACCES' || cause.code === 'EPERM'
  const why = isGone ? 'it vanished while it was packed' : isClosed ? 'this user may not read it' : cause.message
  const code = isGone ? 'file_vanished' : 'file_unreadable'
  return new Refusal('unavailable', code, `"${path}" could not be packed: ${why}`, { field: path, cause })
}

function linkSource(path: string, stats: Stats, root: string): ZipSource {
  const absolute = join(root, path)
  const text = readLink(path, absolute).split(sep).join('/')
  const isRelative = !/^([/\\]|[a-z]:)/i.test(text)
  if (!isRelative || !isInside(root, resolve(dirname(absolute), text)) || !leadsWithin(absolute, root)) {
    const advice = 'leave it out with "ignore", or put a copy in its place'
    const sentence = `"${path}" could not be packed: it is a link to "${text}", which leaves what is packed; ${advice}`
    throw new Refusal('invalid', 'link_leaves_root', sentence, { field: path })
  }
  return { path, kind: 'symlink', source: text, bytes: 0, mode: stats.mode, mtimeMs: stats.mtimeMs }
}

function readLink(path: string, absolute: string): string {
  try {
    return readlinkSync(absolute)
  } catch (cause) {
    throw (cause as NodeJS.ErrnoException).code === 'EINVAL' ? sourceChanged(path) : refuse(path, cause as NodeJS.ErrnoException)
  }
}

/** A link to nothing leads nowhere: its text has been looked at. */
function leadsWithin(absolute: string, root: string): boolean {
  try {
    return isInside(root, realpathSync(absolute))
  } catch {
    return true
  }
}
