/* Packs the files of `push` and `build` (select.ts) into an archive. */
import { createHash } from 'node:crypto'
import type { WriteStream } from 'node:fs'
import { lstat, mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import type { LastSource, ZipSource } from '../../core/archive/source.js'
import { treeOf } from '../../core/archive/tree.js'
import { writeZip, type WriteZipOptions, type ZipProgress } from '../../core/archive/write.js'
import { isDiskFull, reasonOf, Refusal } from '../../base/errors.js'
import { isPartOf, makeDirectories, throughPart, withWriteStream } from '../../base/files.js'
import { countOf, oneLine } from '../../base/text.js'
import type { EffectiveConfig, Flags } from '../../base/config/precedence.js'
import { loadConfiguration } from '../client/session.js'
import { formatBytes } from '../../base/shared/api.js'
import type { Context } from '../command.js'
import { withProgress } from '../terminal/output.js'
import { humanDuration, splitList } from '../terminal/words.js'
import { Interrupted } from '../terminal/prompt.js'
import type { Patches } from './patches.js'
import type { PushedTree, PushIndex } from './push-index.js'
import { findRoot, select, type Selection } from './select.js'

export interface PackOptions extends Selection {
  /** Absolute path of the archive. Default: a file in a new directory below the temporary directory of the system. */
  archivePath?: string
  /** Size limits. Absent: no limit. */
  limits?: PackLimits
  /** Compression level, 0 to 9. */
  level?: number
  onProgress?: (progress: PackProgress) => void
  /** The files, if they were looked up before. */
  found?: Found | undefined
  /** Of the files and links, only these are packed; undefined: all of them. */
  paths?: ReadonlySet<string> | undefined
  /** Differences within other files. */
  patches?: Patches | null | undefined
}

/** The files that a selection names. */
export interface Found {
  sources: readonly ZipSource[]
  /** Their total size. */
  bytes: number
  warnings: string[]
  /** When they were looked up, in milliseconds since 1970. */
  walkedMs: number
}

/** The limits of the server, in bytes. */
interface PackLimits {
  /** Maximum size of the archive. */
  maxUploadBytes: number
  /** Maximum uncompressed size. */
  maxExtractedBytes: number
}

interface PackProgress extends ZipProgress {
  totalEntries: number
  totalBytes: number
}

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

/**
 * Packs the files into an archive. Refuses, besides errors of reading: no_output_dir, nothing_to_pack,
 * too_many_entries, sizes over the limits, and names that the server would refuse (core/archive/names.ts). Leaves nothing
 * behind if it rejects or if the signal is aborted.
 */
export async function pack(options: PackOptions): Promise<PackedArchive> {
  const { signal, onProgress } = options
  signal?.throwIfAborted()
  const root = await findRoot(options)
  const place = await placeForArchive(options.archivePath)
  return await place.write(async waiting => {
    const { sources: all, bytes, warnings } = options.found ?? (await find(root, options, place.except))
    checkSize(bytes, options)
    const { paths } = options
    const sources = all.filter(({ kind, path }) => paths === undefined || kind === 'directory' || paths.has(path))
    const totalBytes = paths === undefined ? bytes : sizeOf(sources)
    const { patches } = options
    const last = patches == null ? {} : { last: lastOf(patches) }
    const written = await writeArchive(waiting, sources, {
      ...options,
      ...last,
      onProgress: done => onProgress?.({ ...done, totalEntries: sources.length, totalBytes })
    })
    signal?.throwIfAborted()
    const files = sources.filter(source => source.kind !== 'directory').length + (patches?.paths.size ?? 0)
    const sourceBytes = totalBytes + (patches?.bytes ?? 0)
    return { path: place.path, files, sourceBytes, ...written, warnings, discard: place.discard }
  })
}

/** The same patches make the same archive, so that a broken upload is continued. */
const patchesMtimeMs = Date.UTC(2000, 0, 1)

function lastOf({ name, contents }: Patches): LastSource {
  return { path: name, mode: 0o644, mtimeMs: patchesMtimeMs, contents: () => contents }
}

async function find(root: string, selection: Selection, except: Place['except']): Promise<Found> {
  const walkedMs = Date.now()
  const warnings: string[] = []
  const sources = await select(root, selection, { except, warn: sentence => warnings.push(sentence) })
  return { sources, bytes: sizeOf(sources), warnings, walkedMs }
}

function sizeOf(sources: readonly ZipSource[]): number {
  return sources.reduce((total, source) => total + source.bytes, 0)
}

interface Place {
  path: string
  /** Whether a path must not be packed: that of the archive itself, also while it is written. */
  except(path: string): boolean
  /** Writes the archive at the path that `work` gets. If that fails, nothing is left. */
  write<T>(work: (waiting: string) => Promise<T>): Promise<T>
  /** Removes a temporary archive that is no longer needed. */
  discard(): Promise<void>
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

/** Returns where an archive is written: at this path, or in a temporary directory of its own. */
export async function placeForArchive(archivePath?: string): Promise<Place> {
  if (archivePath === undefined) {
    await removeOldPacks(tmpdir(), Date.now()).catch(() => {})
    const directory = await realpath(await mkdtemp(join(tmpdir(), packPrefix)))
    const path = join(directory, 'archive.zip')
    const discard = (): Promise<void> => rm(directory, { recursive: true, force: true })
    const write: Place['write'] = async work => {
      try {
        return await work(path)
      } catch (error) {
        await discard()
        throw error
      }
    }
    return { path, except: other => other === path, write, discard }
  }
  await makeDirectories(dirname(archivePath))
  const path = join(await realpath(dirname(archivePath)), basename(archivePath))
  return {
    path,
    except: other => other === path || isPartOf(path, other),
    write: work => throughPart(path, work).catch((error: unknown) => Promise.reject(explain(error, path))),
    discard: async () => {}
  }
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
    throw explain(error, path)
  }
}

function explain(error: unknown, path: string): unknown {
  if (error instanceof Refusal || !isDiskFull(error)) return error
  const sentence = `Cannot write the archive to "${dirname(path)}": ${reasonOf(error)}`
  return new Refusal('unavailable', 'disk_full', sentence, { cause: error })
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

interface PackingOptions {
  /** Absolute path of the archive. Default: a temporary file. */
  path?: string
  /** Limits of the server; absent if unknown. */
  limits?: PackLimits | undefined
  found?: Found | undefined
  paths?: ReadonlySet<string> | undefined
  patches?: Patches | null | undefined
  /** What else the line about the archive says. */
  note?: string
  signal: AbortSignal
}

/** Returns the files that the configuration names. */
export function selectionOf(cwd: string, config: EffectiveConfig): Selection {
  return {
    cwd,
    outputDir: config.outputDir.value,
    files: config.files.value,
    ignore: { builtin: !config.ignoreBuiltin.value, project: config.projectIgnore.value, cli: config.cliIgnore.value }
  }
}

/** Looks up the files of the configuration. Refuses as `select`. */
export async function findFiles(
  { cwd }: Pick<Context, 'cwd'>,
  config: EffectiveConfig,
  signal: AbortSignal
): Promise<Found> {
  const selection = { ...selectionOf(cwd, config), signal }
  return await find(await findRoot(selection), selection, () => false)
}

/** Reads the files, except those that the index knows, shows the progress, and returns their tree. */
export async function readFound(
  { output }: Context,
  { sources, bytes: totalBytes, walkedMs }: Found,
  { index, what, signal }: { index: PushIndex; what: string; signal: AbortSignal }
): Promise<PushedTree> {
  const startedAtMs = Date.now()
  return await withProgress(output.progress(`Reading ${what}`), async bar => {
    const onProgress = (bytes: number): void => bar.update(bytes, totalBytes)
    const tree = await treeOf(sources, { onProgress, known: index.known, signal })
    const took = humanDuration(Date.now() - startedAtMs)
    bar.end(`Read ${countOf(tree.entries.length, 'file')}, ${formatBytes(tree.bytes)}, in ${took}`)
    return { ...tree, walkedMs }
  })
}

/** Packs the files of the configuration and shows the progress. The caller must discard a temporary archive. */
export async function packProject(
  { cwd, output }: Context,
  config: EffectiveConfig,
  { path, limits, found, paths, patches, note = '', signal }: PackingOptions
): Promise<PackedArchive> {
  const startedAtMs = Date.now()
  const bar = output.progress(`Packing ${config.outputDir.value}`)
  try {
    const archive = await pack({
      ...selectionOf(cwd, config),
      ...(path !== undefined && { archivePath: path }),
      ...(limits !== undefined && { limits }),
      onProgress: ({ bytes, totalBytes }) => bar.update(bytes, totalBytes),
      found,
      paths,
      patches,
      signal
    })
    const took = humanDuration(Date.now() - startedAtMs)
    bar.end(
      `Packed ${countOf(archive.files, 'file')}, ${formatBytes(archive.sourceBytes)} into ${formatBytes(archive.bytes)}, in ${took}${note}`
    )
    for (const warning of archive.warnings) output.warn(warning)
    return archive
  } catch (error) {
    bar.clear()
    if (error instanceof Interrupted) output.note('Interrupted: nothing was packed')
    throw error
  }
}

/** The values of the options that a command of packing has. */
type PackWords = Flags & Record<'env', string | undefined> & { ignore: readonly string[]; 'ignore-builtin': boolean }

/** Loads the configuration that the options of a command of packing give. `more` are flags of this command. */
export async function packConfiguration(
  context: Context,
  words: PackWords,
  more: Flags = {}
): Promise<EffectiveConfig> {
  const { token, server, project, out, pre, post, command, env } = words
  const ignore = words.ignore.flatMap(splitList)
  const noIgnoreBuiltin = !words['ignore-builtin']
  const flags = { token, server, project, out, ignore, noIgnoreBuiltin, pre, post, command, ...more }
  const { layers, config } = await loadConfiguration(context, { flags, env, project: 'needed' })
  const { path, warnings } = layers.project ?? { path: '', warnings: [] }
  if (warnings.length === 0) return config
  // Without the key that was meant, other files would be deployed.
  const sentence = `Cannot pack: "${path}" has unknown keys. Correct or remove them`
  throw new Refusal('invalid', 'invalid_config', sentence)
}

/** Prints what the ignore rules leave out, a line each, if the option asks for it. */
export async function listIgnored(
  { cwd, output }: Context,
  config: EffectiveConfig,
  { 'list-ignored': isWanted }: { 'list-ignored'?: boolean | undefined }
): Promise<void> {
  if (!isWanted) return
  const paths: string[] = []
  const selection = { ...selectionOf(cwd, config), leftOut: (path: string) => void paths.push(path) }
  try {
    await select(await findRoot(selection), selection, { except: () => false, warn: () => {} })
    if (paths.length === 0) output.note('The ignore rules leave out nothing')
  } finally {
    for (const path of paths) output.note(`Left out: ${oneLine(path)}`)
  }
}
