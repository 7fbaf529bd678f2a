/*
 * Selects and packs the files of `push` and `build` (§2.13 `outputDir`, `files`; §4.13). Files and directories that
 * `files` names are packed completely. Globs are filtered by the ignore rules. If `files` is empty, everything below
 * outputDir is packed, also filtered. A glob that matches a directory includes everything below it, so `assets/*`
 * includes sub-directories. `svc.config*.json` and `.env*` are packed only if `files` names them or a directory above
 * them.
 */
import { createHash } from 'node:crypto'
import type { WriteStream } from 'node:fs'
import { lstat, mkdir, mkdtemp, readdir, realpath, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, posix, resolve, sep } from 'node:path'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { isInside } from '../../base/paths.js'
import { Refusal } from '../../base/refusal.js'
import { formatBytes } from '../../shared/size.js'
import { isDiskFull, reasonOf } from '../../base/system-error.js'
import { withWriteStream } from '../../base/write-stream.js'
import { compileGlob, isGlob, type Glob } from '../../archive/glob.js'
import { createIgnore, neverPushed, type IgnoreRules } from '../../archive/ignore.js'
import { checkCharacters, quoteName, readName } from '../../archive/names.js'
import type { ZipSource } from '../../archive/source.js'
import { walkTree } from '../../archive/walk.js'
import { writeZip, type WriteZipOptions, type ZipProgress } from '../../archive/write.js'

/** Options of `pack`. */
export interface PackOptions {
  cwd: string
  /** Directory to pack, as configured: relative to `cwd`, or absolute. */
  outputDir: string
  /** Paths and globs, relative to outputDir. */
  files: readonly string[]
  ignore: IgnoreRules
  /** Absolute path of the archive. Default: a file in a new directory below the temporary directory of the system. */
  archivePath?: string
  /** Size limits. Absent: no limit. */
  limits?: PackLimits
  /** Compression level, 0 to 9. */
  level?: number
  onProgress?: (progress: PackProgress) => void
  signal?: AbortSignal | undefined
}

/** The limits of the server, in bytes. */
export interface PackLimits {
  /** Maximum size of the archive. */
  maxUploadBytes: number
  /** Maximum uncompressed size. */
  maxExtractedBytes: number
}

/** The progress of packing. */
export interface PackProgress extends ZipProgress {
  totalEntries: number
  totalBytes: number
}

/** A finished archive. */
export interface PackedArchive {
  path: string
  /** Number of files and links, without directories. */
  files: number
  /** Uncompressed size in bytes. */
  sourceBytes: number
  /** Size of the archive in bytes. */
  bytes: number
  /** SHA-256 of the archive, in hexadecimal. */
  sha256: string
  /** Warnings about skipped files and ineffective patterns. */
  warnings: string[]
  /** Removes the archive, if it is a temporary one. */
  discard(): Promise<void>
}

/** Maximum number of entries that the server accepts. */
const maxEntries = 200_000

/**
 * Packs the files into an archive. Refuses, besides errors of reading: no_output_dir, nothing_to_pack,
 * too_many_entries, sizes over the limits, and names that the server would refuse (archive/names.ts). Leaves nothing
 * behind if it rejects or if the signal is aborted.
 */
export async function pack(options: PackOptions): Promise<PackedArchive> {
  const { signal, onProgress } = options
  signal?.throwIfAborted()
  const root = await findRoot(options)
  const place = await choosePlace(options.archivePath)
  try {
    const warnings: string[] = []
    const sources = await select(root, options, { except: place.except, warn: sentence => warnings.push(sentence) })
    const totalBytes = sources.reduce((total, source) => total + source.bytes, 0)
    checkSize(totalBytes, options)
    const written = await writeArchive(place.waiting, sources, {
      ...options,
      onProgress: done => onProgress?.({ ...done, totalEntries: sources.length, totalBytes })
    })
    signal?.throwIfAborted()
    if (place.waiting !== place.path) await rename(place.waiting, place.path)
    const files = sources.filter(source => source.kind !== 'directory').length
    return { path: place.path, files, sourceBytes: totalBytes, ...written, warnings, discard: place.discard }
  } catch (error) {
    await place.abandon()
    throw error
  }
}

async function findRoot({ cwd, outputDir }: PackOptions): Promise<string> {
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

interface Place {
  path: string
  /** Path of the file while it is written. */
  waiting: string
  /** Paths that must not be packed: the archive itself. */
  except: string[]
  /** Removes a temporary archive that is no longer needed. */
  discard(): Promise<void>
  /** Removes an incomplete archive. */
  abandon(): Promise<void>
}

/** Prefix of the temporary directory for an archive to upload. */
const packPrefix = 'svc-pack-'
/** Age after which an archive is abandoned: longer than any upload. An upload that takes longer keeps its file open. */
const oldPackMs = 24 * 60 * 60_000

/** Removes old archives that killed commands of this user left in the temporary directory. */
export async function removeOldPacks(temporary: string, nowMs: number): Promise<void> {
  for (const name of await readdir(temporary)) {
    if (!name.startsWith(packPrefix)) continue
    const stats = await lstat(join(temporary, name)).catch(() => null)
    const isOwn = stats?.isDirectory() === true && (process.getuid === undefined || stats.uid === process.getuid())
    if (isOwn && nowMs - stats.mtimeMs > oldPackMs) await rm(join(temporary, name), { recursive: true, force: true })
  }
}

async function choosePlace(archivePath: string | undefined): Promise<Place> {
  if (archivePath === undefined) {
    await removeOldPacks(tmpdir(), Date.now()).catch(() => {})
    const directory = await realpath(await mkdtemp(join(tmpdir(), packPrefix)))
    const path = join(directory, 'archive.zip')
    const discard = (): Promise<void> => rm(directory, { recursive: true, force: true })
    return { path, waiting: path, except: [path], discard, abandon: discard }
  }
  await mkdir(dirname(archivePath), { recursive: true })
  const path = join(await realpath(dirname(archivePath)), basename(archivePath))
  const waiting = `${path}.part`
  const abandon = (): Promise<void> => rm(waiting, { force: true })
  return { path, waiting, except: [path, waiting], discard: async () => {}, abandon }
}

async function select(
  root: string,
  options: PackOptions,
  { except, warn }: { except: readonly string[]; warn: (sentence: string) => void }
): Promise<ZipSource[]> {
  const { files, signal } = options
  const base = { root, except, warn, signal }
  const ignore = createIgnore({ ...options.ignore, never: neverPushed })
  warnOfNoEffect(options.ignore, warn)
  const named: string[] = []
  const globs: Array<{ text: string; glob: Glob }> = []
  for (const [at, text] of files.entries()) {
    const path = await findNamed(root, text, `files[${at}]`)
    if (path !== null) named.push(path)
    else globs.push({ text, glob: compileGlob(cleanPath(text)) })
  }
  const chosen = new Map<string, ZipSource>()
  const take = (source: ZipSource): void => {
    if (!chosen.has(source.path)) chosen.set(source.path, source)
    if (chosen.size > maxEntries) throw tooMany(options.outputDir)
  }
  for (const path of named) await walkTree(path, { ...base, ignore: null, globs: null }, take)
  if (files.length === 0) await walkTree('', { ...base, ignore, globs: null }, take)
  if (globs.length > 0) await walkTree('', { ...base, ignore, globs: globs.map(({ glob }) => glob) }, take)
  const sources = [...chosen.values()]
  for (const { text, glob } of globs) {
    const isOfUse = sources.some(source => matchesOrAbove(glob, source.path))
    if (!isOfUse) warn(`"${text}" in files matches nothing`)
  }
  if (!sources.some(source => source.kind !== 'directory')) throw nothingToPack(root, files)
  checkNames(sources)
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
  const shown = others
    .slice(0, maxNamesShown)
    .map(({ path }) => quoteName(path))
    .join(', ')
  const rest = others.length > maxNamesShown ? `, and ${others.length - maxNamesShown} more` : ''
  throw new Refusal(
    kind,
    code,
    others.length === 0 ? message : `${message}. Other file names that cannot be used: ${shown}${rest}`
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
  const clean = posix.normalize(slashed).replace(/(?<=.)\/+$/, '')
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

function checkSize(totalBytes: number, { outputDir, limits }: PackOptions): void {
  if (limits === undefined || totalBytes <= limits.maxExtractedBytes) return
  const limit = `the server accepts at most ${formatBytes(limits.maxExtractedBytes)} (setting max_extracted_size)`
  throw new Refusal(
    'too_large',
    'extracted_too_large',
    `Cannot pack "${outputDir}": its files have ${formatBytes(totalBytes)}, and ${limit}. Check outputDir`,
    { field: 'outputDir' }
  )
}

function archiveTooLarge(outputDir: string, limitBytes: number): Refusal {
  const why = `the archive is larger than ${formatBytes(limitBytes)}, the maximum of the server (setting max_upload_size)`
  return new Refusal(
    'too_large',
    'too_large',
    `Cannot pack "${outputDir}": ${why}. Leave files out with "ignore", or raise the setting`
  )
}

async function writeArchive(
  path: string,
  sources: readonly ZipSource[],
  { outputDir, limits, ...options }: WriteZipOptions & Pick<PackOptions, 'outputDir' | 'limits'>
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  const maxBytes = limits?.maxUploadBytes ?? Infinity
  let bytes = 0
  const count = (chunk: Uint8Array): void => {
    bytes += chunk.length
    if (bytes > maxBytes) throw archiveTooLarge(outputDir, maxBytes)
    hash.update(chunk)
  }
  try {
    return await withWriteStream(path, { mode: 0o600 }, async file => {
      const out = hashing(file, count)
      const { zipBytes } = await writeZip(sources, out, options)
      await finished(out.end())
      return { bytes: zipBytes, sha256: hash.digest('hex') }
    })
  } catch (error) {
    if (!isDiskFull(error)) throw error
    const sentence = `Cannot write the archive to "${dirname(path)}": ${reasonOf(error)}`
    throw new Refusal('unavailable', 'disk_full', sentence, { cause: error })
  }
}

function hashing(file: WriteStream, update: (bytes: Uint8Array) => void): Writable {
  const out = new Writable({
    highWaterMark: 1024 * 1024,
    write(bytes: Buffer, _, done) {
      try {
        update(bytes)
      } catch (error) {
        return done(error as Error)
      }
      file.write(bytes, done)
    },
    final: done => void file.end(done)
  })
  file.on('error', error => out.destroy(error))
  // The next write gets the error.
  out.on('error', () => {})
  return out
}
