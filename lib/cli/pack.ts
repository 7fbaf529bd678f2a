/*
 * What `push` and `build` pack (§2.13 `outputDir`, `files`; §4.13): named files and directories as they stand, globs
 * filtered by the ignore rules, everything below outputDir where `files` is empty. A glob that matches a directory
 * means all below it: `assets/*` leaves no sub-directory behind. `svc.config*.json` and `.env*` are packed only if `files`
 * names them, or a directory above them.
 */
import { createHash } from 'node:crypto'
import type { WriteStream } from 'node:fs'
import { lstat, mkdir, mkdtemp, readdir, realpath, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, posix, resolve, sep } from 'node:path'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { isInside } from '../base/paths.js'
import { Refusal } from '../base/refusal.js'
import { formatBytes } from '../base/size.js'
import { isDiskFull } from '../base/system-error.js'
import { withWriteStream } from '../base/write-stream.js'
import { compileGlob, isGlob, type Glob } from '../archive/glob.js'
import { createIgnore, neverPushed, type IgnoreRules } from '../archive/ignore.js'
import { checkCharacters, quoteName, readName } from '../archive/names.js'
import type { ZipSource } from '../archive/source.js'
import { walkTree } from '../archive/walk.js'
import { writeZip, type WriteZipOptions, type ZipProgress } from '../archive/write.js'

export interface PackOptions {
  cwd: string
  /** As configured: relative to `cwd`, or absolute. */
  outputDir: string
  /** Relative to outputDir. */
  files: readonly string[]
  ignore: IgnoreRules
  /** Absolute. Absent: a file in a directory of its own in the system's temporary one. */
  archivePath?: string
  /** Absent: the archive may be of any size. */
  limits?: PackLimits
  /** 0 to 9. */
  level?: number
  onProgress?: (progress: PackProgress) => void
  signal?: AbortSignal | undefined
}

/** What the server takes, in bytes. */
export interface PackLimits {
  /** Of the archive. */
  maxUploadBytes: number
  /** Of the files in it. */
  maxExtractedBytes: number
}

export interface PackProgress extends ZipProgress {
  totalEntries: number
  totalBytes: number
}

export interface PackedArchive {
  path: string
  /** Files and links; empty directories are not counted. */
  files: number
  /** Of the sources. */
  sourceBytes: number
  /** Of the archive. */
  bytes: number
  /** Of the archive, hex. */
  sha256: string
  /** Sentences about what was read past. */
  warnings: string[]
  /** Removes the archive, if it is a temporary one. */
  discard(): Promise<void>
}

/** The server takes no more (decisions on deployments). */
const maxEntries = 200_000

/**
 * Packs. Refuses, among what reading meets: no_output_dir, nothing_to_pack, too_many_entries, what is over the limits, and
 * names that the server would refuse (archive/names.ts). When it rejects, and when the signal is aborted, nothing is left behind.
 */
export async function pack(options: PackOptions): Promise<PackedArchive> {
  const { signal, onProgress } = options
  signal?.throwIfAborted()
  const root = await findRoot(options)
  const place = await choosePlace(options.archivePath)
  try {
    const warnings: string[] = []
    const sources = await select(root, place.except, options, sentence => warnings.push(sentence))
    const totalBytes = sources.reduce((total, source) => total + source.bytes, 0)
    checkSize(totalBytes, options)
    const written = await writeArchive(place.waiting, sources, options, {
      ...(options.level === undefined ? {} : { level: options.level }),
      onProgress: done => onProgress?.({ ...done, totalEntries: sources.length, totalBytes }),
      signal
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
    const sentence = `"${outputDir}" could not be packed: ${why}; build the project first, or set outputDir`
    return new Refusal('not_found', 'no_output_dir', sentence, { field: 'outputDir' })
  }
  const real = await realpath(root).catch(() => null)
  if (real === null) throw refuse(`there is no directory ${root}`)
  if (!(await lstat(real)).isDirectory()) throw refuse('it is not a directory')
  return real
}

interface Place {
  path: string
  /** Where it is written first. */
  waiting: string
  /** What must not be packed into itself. */
  except: string[]
  /** When it is no longer needed. */
  discard(): Promise<void>
  /** When it was not completed. */
  abandon(): Promise<void>
}

/** Of the directory that an archive to be sent is packed in. */
const packPrefix = 'svc-pack-'
/** Longer than any upload takes; where one takes longer, its file is open. */
const oldPackMs = 24 * 60 * 60_000

/** Removes archives that killed commands of this user left in the directory for temporary files. */
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
  root: string, except: readonly string[], options: PackOptions, warn: (sentence: string) => void
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
    if (!isOfUse) warn(`"${text}" in files matches nothing that is packed`)
  }
  if (!sources.some(source => source.kind !== 'directory')) throw nothingToPack(root, files)
  checkNames(sources)
  return sources
}

const maxNamesShown = 10

/** Says before anything is packed what the server would say of the whole archive after the upload. */
function checkNames(sources: readonly ZipSource[]): void {
  const wrong: Array<{ path: string; refusal: Refusal }> = []
  for (const source of sources) {
    const refusal = refusalOf(source)
    if (refusal !== null) wrong.push({ path: source.path, refusal })
  }
  const [first, ...others] = wrong
  if (first === undefined) return
  const { kind, code, message } = first.refusal
  const shown = others.slice(0, maxNamesShown).map(({ path }) => quoteName(path)).join(', ')
  const rest = others.length > maxNamesShown ? `, and ${others.length - maxNamesShown} more` : ''
  throw new Refusal(kind, code, others.length === 0 ? message : `${message}. Names of other files cannot be used either: ${shown}${rest}`)
}

/** What the server will run on is not known, so the rules of Windows are left to it. */
function refusalOf({ path, kind, source }: ZipSource): Refusal | null {
  try {
    readName(path, { windows: false })
    if (kind === 'symlink') checkCharacters(String(source), path, 'where it leads')
    return null
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** Patterns that are to take back what is never packed. */
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
 * The path of a file or directory that `files` names, `''` for the root; null: it is a glob. What exists is meant as it
 * stands, also where its name looks like a glob. Refuses what is neither, and what lies outside the root.
 */
async function findNamed(root: string, text: string, field: string): Promise<string | null> {
  const refuse = (code: string, why: string): Refusal =>
    new Refusal('invalid', code, `"${text}" in files cannot be packed: ${why}`, { field })
  if (text.startsWith('!')) throw refuse('negated_file', 'what is to stay out belongs into "ignore", without the "!"')
  const path = cleanPath(text)
  const absolute = resolve(root, path)
  if (!isInside(root, absolute) || posix.isAbsolute(path)) throw refuse('file_outside', 'it must be below outputDir')
  const isThere = await lstat(absolute).then(() => true, () => false)
  if (!isThere && isGlob(path)) return null
  if (!isThere) throw refuse('no_such_file', `there is no file or directory ${absolute}`)
  const isWithin = path === '' || isInside(root, await realpath(dirname(absolute)))
  if (!isWithin) throw refuse('file_outside', 'a link on its way leaves outputDir')
  return path
}

/** `/` between segments, no `.` among them, none at the ends; `''` for the root. */
function cleanPath(text: string): string {
  const slashed = sep === '\\' ? text.replaceAll('\\', '/') : text
  const clean = posix.normalize(slashed).replace(/(?<=.)\/+$/, '')
  return clean === '.' ? '' : clean
}

function nothingToPack(root: string, files: readonly string[]): Refusal {
  const sought = files.length === 0 ? 'everything' : files.map(text => `"${text}"`).join(', ')
  const sentence = `there is nothing to pack: ${sought} below ${root} gives no file, after the ignore rules`
  return new Refusal('not_found', 'nothing_to_pack', sentence, { field: 'files' })
}

function tooMany(outputDir: string): Refusal {
  const why = `it has more than ${maxEntries} files, which the server refuses; is outputDir right?`
  const sentence = `"${outputDir}" could not be packed: ${why}`
  return new Refusal('too_large', 'too_many_entries', sentence, { field: 'outputDir' })
}

function checkSize(totalBytes: number, { outputDir, limits }: PackOptions): void {
  if (limits === undefined || totalBytes <= limits.maxExtractedBytes) return
  const sizes = `its files have ${formatBytes(totalBytes)}, and the server takes ${formatBytes(limits.maxExtractedBytes)} at most (setting max_extracted_size)`
  throw new Refusal('too_large', 'extracted_too_large', `"${outputDir}" could not be packed: ${sizes}; is outputDir right?`, { field: 'outputDir' })
}

function archiveTooLarge(outputDir: string, limitBytes: number): Refusal {
  const why = `the archive is larger than the ${formatBytes(limitBytes)} that the server takes (setting max_upload_size)`
  return new Refusal('too_large', 'too_large', `"${outputDir}" could not be packed: ${why}; leave files out with "ignore", or raise the setting`)
}

async function writeArchive(
  path: string, sources: readonly ZipSource[], { outputDir, limits }: PackOptions, options: WriteZipOptions
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
    const sentence = `the archive could not be written: the disk that holds "${dirname(path)}" is full`
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
  // Whoever writes next is told.
  out.on('error', () => {})
  return out
}
