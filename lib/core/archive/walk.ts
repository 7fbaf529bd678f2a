/*
 * Walks a tree, from its root down, and finds the sources of a zip, sorted by name, so that the same tree gives the
 * same archive.
 *
 * Symbolic links stay links if they lead to something within the root. A link that leaves the root is refused, not
 * followed: its target was never meant to be packed, or should be copied deliberately; and the server would refuse the
 * link. Sockets, pipes and devices are left out, with a warning. A directory becomes an entry of its own only if
 * nothing below it is packed, so that empty directories are created, too.
 */
import { closeSync, constants, lstatSync, openSync, readdirSync, readlinkSync, realpathSync, type Stats } from 'node:fs'
import { dirname, join, resolve, sep } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { isInside, nameOfDescriptor, placeOfDescriptor } from '../../base/files.js'
import { compileGlob, type Glob } from '../../base/glob.js'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { builtinIgnore, isBroughtAlong, neverPushed } from '../../base/shared/tree-text.js'
import { sourceChanged, type ZipSource } from './source.js'

/** What to walk, and with which rules. */
interface WalkOptions {
  /** Absolute path without links. */
  root: string
  /** The rules for files to leave out; null leaves out nothing. */
  ignore: Ignore | null
  /**
   * Includes only paths that match one of these, and everything below a matching directory; null includes everything.
   */
  globs: readonly Glob[] | null
  /** Whether an absolute path is never packed, such as that of the archive itself. */
  except: (path: string) => boolean
  warn(sentence: string): void
  /** Called for each file and directory that the rules leave out; a directory has a slash at its end. */
  leftOut?: ((path: string) => void) | undefined
  /** Another user may exchange files and directories of the tree in the meantime (`ZipSource.mayBeExchanged`). */
  mayBeExchanged?: boolean
  signal?: AbortSignal | undefined
}

/** The decision about the directory above. */
interface Above {
  verdict: Verdict
  /** Everything below is included: no glob need match. */
  isChosen: boolean
}

/**
 * Finds the sources in `start`, a path relative to the root, `''` for the root itself. Calls `found` for each, in
 * order. Refuses (`unavailable`) file_vanished and file_unreadable, (`invalid`) link_leaves_root and name_not_packable.
 */
export async function walkTree(start: string, options: WalkOptions, found: (source: ZipSource) => void): Promise<void> {
  const above: Above = { verdict: rootVerdict, isChosen: options.globs === null }
  const tree: Tree = { ...options, found }
  if (start === '') await walkDirectory('', above, tree)
  else await walkEntry(lookAt(start, join(options.root, start)), above, tree)
}

type Tree = WalkOptions & { found: (source: ZipSource) => void }

/** Returns whether anything in the directory was found. */
async function walkDirectory(directory: string, above: Above, tree: Tree): Promise<boolean> {
  // Gives an interrupt and a progress bar a chance to run.
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

/** Returns a promise for directories only: a promise for each file would cost more than its lookup. */
function walkEntry(entry: Found, above: Above, tree: Tree): boolean | Promise<boolean> {
  const { path, absolute, stats } = entry
  const { ignore, globs, except, warn, found } = tree
  const isChosen = above.isChosen || (globs ?? []).some(glob => glob.matches(path))
  const verdict = ignore === null ? above.verdict : ignore.judge(path, stats.isDirectory(), above.verdict)
  if (stats.isDirectory()) return walkBelow(entry, { verdict, isChosen }, tree)
  if (isChosen && verdict.isIgnored) tree.leftOut?.(path)
  if (!isChosen || verdict.isIgnored || except(absolute)) return false
  if (stats.isSymbolicLink()) {
    found(linkSource(path, stats, tree.root))
  } else if (stats.isFile()) {
    const { size, mode, mtimeMs, ctimeMs, ino, dev } = stats
    const seen = { ctimeMs, ino, dev }
    const source: ZipSource = { path, kind: 'file', source: absolute, bytes: size, mode, mtimeMs, seen }
    if (tree.mayBeExchanged) source.mayBeExchanged = true
    found(source)
  } else {
    warn(`"${path}" was left out: it is not a file, a directory or a link`)
    return false
  }
  return true
}

async function walkBelow({ path, stats }: Found, here: Above, tree: Tree): Promise<boolean> {
  const { ignore, globs, found } = tree
  const { verdict, isChosen } = here
  if (!isChosen && !(globs ?? []).some(glob => glob.mayMatchBelow(path))) return false
  if (verdict.isIgnored && !ignore?.mayReachInto(path, verdict)) {
    if (isChosen) tree.leftOut?.(`${path}/`)
    return false
  }
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
    throw refuse(directory || root, cause)
  }
}

/** Lists the directory that really is at a path without links, and no other. */
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
    const sentence = `Cannot pack "${path}": its name is not valid UTF-8`
    throw new Refusal('invalid', 'name_not_packable', sentence, { field: path })
  }
  try {
    return { path, absolute, stats: lstatSync(absolute) }
  } catch (cause) {
    throw refuse(path, cause)
  }
}

function refuse(path: string, cause: unknown): Refusal {
  const isGone = hasCode(cause, 'ENOENT', 'ENOTDIR')
  const why = isGone ? 'it was removed while it was packed' : reasonOf(cause)
  const code = isGone ? 'file_vanished' : 'file_unreadable'
  return new Refusal('unavailable', code, `Cannot pack "${path}": ${why}`, { field: path, cause })
}

function linkSource(path: string, stats: Stats, root: string): ZipSource {
  const absolute = join(root, path)
  const text = readLink(path, absolute).split(sep).join('/')
  const isRelative = !/^([/\\]|[a-z]:)/i.test(text)
  if (!isRelative || !isInside(root, resolve(dirname(absolute), text)) || !leadsWithin(absolute, root)) {
    const advice = 'Exclude it with "ignore", or replace it with a copy'
    const sentence = `Cannot pack "${path}": it is a link to "${text}", outside the packed directory. ${advice}`
    throw new Refusal('invalid', 'link_leaves_root', sentence, { field: path })
  }
  return { path, kind: 'symlink', source: text, bytes: 0, mode: stats.mode, mtimeMs: stats.mtimeMs }
}

function readLink(path: string, absolute: string): string {
  try {
    return readlinkSync(absolute)
  } catch (cause) {
    throw hasCode(cause, 'EINVAL') ? sourceChanged(path) : refuse(path, cause)
  }
}

/** Whether a link leads within the root. A dangling link is accepted: its text has been checked. */
function leadsWithin(absolute: string, root: string): boolean {
  try {
    return isInside(root, realpathSync(absolute))
  } catch {
    return true
  }
}

/*
 * Decides which files stay out of an archive (§4.13): the built-in rules (base/shared/tree-text.ts), then the project's
 * `ignore`, then `--ignore`.
 * The last rule that matches decides, and `!pattern` includes again what an earlier rule excluded.
 *
 * A rule has the syntax of a line of .gitignore:
 *   name     without a slash: a file or directory of that name at any depth
 *   a/b      with a slash: relative to the root of the packed tree; a leading slash does the same for a single name
 *   dir/     directories only
 *   dir/**   the directory and everything below it
 *
 * `never` has priority over all of these: no rule includes such a file again.
 *
 * Nothing below an excluded directory is looked up, unless a later `!a/b` names something there: only a rule with a
 * slash reaches into it. (`!build` means the project's own directory, not one in node_modules.)
 */

/**
 * Never pushed, whatever the rules say: `neverPushed`, and the temporary files that a killed command left of settings
 * (base/files.ts). `.svc` in the packed directory has the tokens of a user whose home it is. `files` may name
 * such a file.
 */
export const neverPacked: readonly string[] = [...neverPushed, 'svc.config*.json.*.tmp', '.svc/**']

/** The rules of one packing. */
export interface IgnoreRules {
  /** Whether the built-in rules apply. */
  builtin: boolean
  /** The `ignore` of the project's configuration file. */
  project: readonly string[]
  /** The option `--ignore`. */
  cli: readonly string[]
  /** Patterns that no other rule can include again. */
  never?: readonly string[]
  /** Absolute path of the packed tree. The built-in rules spare what a complete build output brings along. */
  root?: string
}

/** The decision about one path. */
interface Verdict {
  isIgnored: boolean
  /**
   * Index of the rule that decided, here or for the directory above. -1 means that no rule did, Infinity that no rule
   * can change the decision.
   */
  rank: number
}

/** Decides about the paths of a tree that is walked from its root down. */
type Ignore = ReturnType<typeof createIgnore>

/** The verdict on the root of a tree. */
export const rootVerdict: Verdict = { isIgnored: false, rank: -1 }

interface Rule {
  isNegated: boolean
  isDirectoryOnly: boolean
  /** Without a slash: matched against the last segment. */
  isFloating: boolean
  glob: Glob
  /** For `dir/**`: the directory itself. */
  top: Glob | null
  /** Spares what `isBroughtAlong`. */
  isBuiltin: boolean
}

/** Creates the decisions for a set of rules. */
export function createIgnore({ builtin, project, cli, never = [], root = '' }: IgnoreRules) {
  const builtins = builtin ? builtinIgnore.flatMap(parseRule).map(rule => ({ ...rule, isBuiltin: true })) : []
  const rules: Rule[] = [...builtins, ...[...project, ...cli].flatMap(parseRule)]
  const neverRules = never.flatMap(parseRule)
  const [named, anchored] = [true, false].map(isFloating =>
    endsPattern([...neverRules, ...rules].filter(rule => rule.isFloating === isFloating))
  ) as [RegExp, RegExp]
  const top = `${root.replaceAll('\\', '/')}/`
  const isSpared = ({ path, name }: Judged): boolean => isBroughtAlong(name, top + path.slice(0, -name.length - 1))
  return {
    /** Decides about a path, given the verdict on its parent directory (`rootVerdict` at the top). */
    judge(path: string, isDirectory: boolean, above: Verdict): Verdict {
      const name = path.slice(path.lastIndexOf('/') + 1)
      // No rule is for most files. measured: bench/pack
      if (!isDirectory && !named.test(name) && !anchored.test(path)) return above
      const judged = { path, name, isDirectory }
      if (neverRules.some(rule => applies(rule, judged))) return { isIgnored: true, rank: Infinity }
      // Below an excluded directory, only later rules apply, and of those that include, only the ones that reach in.
      const last = above.isIgnored ? above.rank : -1
      for (let rank = rules.length - 1; rank > last; rank--) {
        const rule = rules[rank] as Rule
        if (above.isIgnored && rule.isNegated && rule.isFloating) continue
        if (!applies(rule, judged) || (rule.isBuiltin && isSpared(judged))) continue
        return { isIgnored: !rule.isNegated, rank }
      }
      return above
    },

    /** Whether a rule may include something below an excluded directory. */
    mayReachInto(directory: string, { rank }: Verdict): boolean {
      const reaching = rules.slice(rank + 1).filter(rule => rule.isNegated && !rule.isFloating)
      return reaching.some(rule => rule.glob.mayMatchBelow(directory))
    }
  }
}

/** Returns a pattern of every path, or name, that one of the rules may match. */
function endsPattern(rules: readonly Rule[]): RegExp {
  const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  const ends = rules.flatMap(({ glob }) => glob.ends)
  return new RegExp(
    `^(?:${ends.map(({ head, tail }) => `(?=${escaped(head)})[^]*${escaped(tail)}`).join('|') || '(?!)'})$`
  )
}

interface Judged {
  path: string
  /** The last segment of the path. */
  name: string
  isDirectory: boolean
}

function applies(rule: Rule, { path, name, isDirectory }: Judged): boolean {
  if (rule.isDirectoryOnly && !isDirectory) return false
  if (isDirectory && rule.top?.matches(path)) return true
  return rule.glob.matches(rule.isFloating ? name : path)
}

/** Returns the rule of a line, or nothing for an empty line or a comment. */
function parseRule(line: string): Rule[] {
  const text = line.trim()
  if (text === '' || text.startsWith('#')) return []
  const isNegated = text.startsWith('!')
  const pattern = text.slice(isNegated ? 1 : 0).replace(/^\.\//, '')
  const bare = pattern.replace(/(?<!\/)\/+$/, '')
  if (bare === '') return []
  const top = /^(.*[^/])\/+\*\*$/.exec(bare)?.[1]
  return [
    {
      isNegated,
      isDirectoryOnly: bare !== pattern,
      isFloating: !bare.includes('/'),
      glob: compileGlob(bare),
      top: top === undefined ? null : compileGlob(top),
      isBuiltin: false
    }
  ]
}
