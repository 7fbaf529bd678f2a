/*
 * Selects the files of `push`, `build` and `plan` (§2.13 `outputDir`, `files`; §4.13). Files and directories that
 * `files` names are selected completely. Globs are filtered by the ignore rules. If `files` is empty, everything below
 * outputDir is selected, also filtered. A glob that matches a directory includes everything below it, so `assets/*`
 * includes sub-directories. `svc.config*.json` and `.env*` are selected only if `files` names them or a directory above
 * them.
 */
import { lstat, realpath } from 'node:fs/promises'
import { dirname, posix, resolve, sep } from 'node:path'
import { compileGlob, isGlob, type Glob } from '../../base/glob.js'
import { createIgnore, type IgnoreRules, neverPacked, walkTree } from '../../core/archive/walk.js'
import { checkLinks, checkCharacters, quoteName, readName } from '../../core/archive/names.js'
import type { ZipSource } from '../../core/archive/source.js'
import { isInside } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { neverPushed } from '../../base/shared/tree-text.js'

/** The files to select. */
export interface Selection {
  cwd: string
  /** Directory to pack, as configured: relative to `cwd`, or absolute. */
  outputDir: string
  /** Paths and globs, relative to outputDir. */
  files: readonly string[]
  ignore: IgnoreRules
  /** Called for each file and directory that the rules leave out; a directory has a slash at its end. */
  leftOut?: (path: string) => void
  signal?: AbortSignal | undefined
}

/** Maximum number of entries that the server accepts. */
const maxEntries = 200_000

/** Returns the real path of outputDir. Refuses (`not_found`) no_output_dir. */
export async function findRoot({ cwd, outputDir }: Selection): Promise<string> {
  const root = resolve(cwd, outputDir)
  const refuse = (why: string): Refusal => {
    const sentence = `Cannot pack "${outputDir}": ${why}. Build the project first, or set outputDir`
    return new Refusal('not_found', 'no_output_dir', sentence, { field: 'outputDir' })
  }
  const real = await realpath(root).catch(() => null)
  if (real === null) throw refuse(`directory not found: "${root}"`)
  if (!(await lstat(real)).isDirectory()) throw refuse('it is not a directory')
  return real
}

/**
 * Returns the sources below the root. Refuses, besides errors of reading: nothing_to_pack, too_many_entries, and names
 * that the server would refuse (core/archive/names.ts).
 */
export async function select(
  root: string,
  options: Selection,
  { except, warn }: { except: (path: string) => boolean; warn: (sentence: string) => void }
): Promise<ZipSource[]> {
  const { files, leftOut, signal } = options
  const base = { root, except, warn, leftOut, signal }
  const ignore = createIgnore({ ...options.ignore, never: neverPacked, root })
  warnOfNoEffect(options.ignore, warn)
  const named: string[] = []
  const globs: Array<{ text: string; glob: Glob }> = []
  for (const [at, text] of files.entries()) {
    const path = await findNamed(root, text, `files[${at}]`)
    if (path !== null) named.push(path)
    else globs.push({ text, glob: compileGlob(cleanPath(text)) })
  }
  const sources: ZipSource[] = []
  // One walk finds nothing twice.
  const chosen = files.length === 0 ? null : new Set<string>()
  const take = (source: ZipSource): void => {
    if (chosen?.has(source.path)) return
    chosen?.add(source.path)
    if (sources.push(source) > maxEntries) throw tooMany(options.outputDir)
  }
  for (const path of named) await walkTree(path, { ...base, ignore: null, globs: null }, take)
  if (files.length === 0) await walkTree('', { ...base, ignore, globs: null }, take)
  if (globs.length > 0) await walkTree('', { ...base, ignore, globs: globs.map(({ glob }) => glob) }, take)
  for (const { text, glob } of globs) {
    const isOfUse = sources.some(source => matchesOrAbove(glob, source.path))
    if (!isOfUse) warn(`"${text}" in files matches nothing`)
  }
  if (!sources.some(source => source.kind !== 'directory')) throw nothingToPack(root, files)
  checkNames(sources)
  const links = sources.filter(({ kind }) => kind === 'symlink')
  checkLinks(new Map(links.map(({ path, source }) => [path, String(source)])), () => null)
  warnOfClosed(sources, warn)
  return sources
}

const maxNamesShown = 10

/** Refuses names that the server would refuse after the upload, before anything is packed. */
function checkNames(sources: readonly ZipSource[]): void {
  const wrong: Array<{ path: string; refusal: Refusal }> = []
  for (const source of sources) {
    const refusal = refusalOf(source)
    if (refusal !== null) wrong.push({ path: source.path, refusal })
  }
  const [first, ...others] = wrong
  if (first === undefined) return
  const { kind, code, message } = first.refusal
  throw new Refusal(
    kind,
    code,
    others.length === 0 ? message : `${message}. Other file names that cannot be used: ${namesOf(others)}`
  )
}

function namesOf(found: ReadonlyArray<{ path: string }>): string {
  const shown = found.slice(0, maxNamesShown).map(({ path }) => quoteName(path))
  return shown.join(', ') + (found.length > shown.length ? `, and ${found.length - shown.length} more` : '')
}

const [otherMayRead, otherMayEnter] = [0o4, 0o1]

/** Warns about files and directories that another user, such as that of a web server, cannot read on the server. */
function warnOfClosed(sources: readonly ZipSource[], warn: (sentence: string) => void): void {
  const closed = sources.filter(({ kind, mode }) => {
    const needed = kind === 'directory' ? otherMayRead | otherMayEnter : otherMayRead
    return kind !== 'symlink' && (mode & needed) !== needed
  })
  if (closed.length === 0) return
  const what = closed.every(({ mode }) => (mode & 0o040) === 0) ? 'only their owner' : 'only their owner and group'
  warn(
    `the web server may not be able to read files that ${what} can read, as a umask of 077 or 027 makes them: ` +
      `${namesOf(closed)}. To let everybody read them: chmod -R o+rX`
  )
}

/**
 * Returns the refusal for a name, or null. The platform of the server is unknown, so it applies the Windows rules
 * itself.
 */
function refusalOf({ path, kind, source }: ZipSource): Refusal | null {
  try {
    readName(path, { windows: false })
    if (kind === 'symlink') checkCharacters(String(source), path, 'its link target')
    return null
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** Warns about patterns that try to include files that are never packed. */
function warnOfNoEffect({ project, cli }: IgnoreRules, warn: (sentence: string) => void): void {
  for (const line of [...project, ...cli]) {
    if (!/^\s*!(.*\/)?(\.env|svc\.config)/.test(line)) continue
    warn(`"${line}" in ignore has no effect: ${neverPushed.join(' and ')} are packed only if "files" names them`)
  }
}

function matchesOrAbove(glob: Glob, path: string): boolean {
  const above = posix.dirname(path)
  return glob.matches(path) || (above !== '.' && matchesOrAbove(glob, above))
}

/**
 * Returns the path of a file or directory that `files` names, `''` for the root, or null for a glob. An existing path
 * is never a glob, even if its name looks like one. Refuses anything else, and paths outside of the root.
 */
async function findNamed(root: string, text: string, field: string): Promise<string | null> {
  const refuse = (code: string, why: string): Refusal =>
    new Refusal('invalid', code, `Cannot pack "${text}" in files: ${why}`, { field })
  if (text.startsWith('!')) throw refuse('negated_file', 'list files to leave out in "ignore", without the "!"')
  const path = cleanPath(text)
  const absolute = resolve(root, path)
  if (!isInside(root, absolute) || posix.isAbsolute(path)) throw refuse('file_outside', 'it must be below outputDir')
  const isThere = await lstat(absolute).then(
    () => true,
    () => false
  )
  if (!isThere && isGlob(path)) return null
  if (!isThere) throw refuse('no_such_file', `file not found: "${absolute}"`)
  const isWithin = path === '' || isInside(root, await realpath(dirname(absolute)))
  if (!isWithin) throw refuse('file_outside', 'a symbolic link in its path leads out of outputDir')
  return path
}

/** Normalizes a path: `/` between segments, no `.` segments, no slash at the end; `''` for the root. */
function cleanPath(text: string): string {
  const slashed = sep === '\\' ? text.replaceAll('\\', '/') : text
  const clean = posix.normalize(slashed).replace(/(?<=.)\/$/, '')
  return clean === '.' ? '' : clean
}

function nothingToPack(root: string, files: readonly string[]): Refusal {
  const sought = files.length === 0 ? 'no files' : `no files matching ${files.map(text => `"${text}"`).join(', ')}`
  const sentence = `Nothing to pack: after the ignore rules, there are ${sought} below "${root}"`
  return new Refusal('not_found', 'nothing_to_pack', sentence, { field: 'files' })
}

function tooMany(outputDir: string): Refusal {
  const why = `it has more than ${maxEntries} files, the maximum of the server. Check outputDir`
  const sentence = `Cannot pack "${outputDir}": ${why}`
  return new Refusal('too_large', 'too_many_entries', sentence, { field: 'outputDir' })
}
