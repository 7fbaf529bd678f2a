import { createHash } from 'node:crypto'
import { createEntryReader } from '../archive/entry-data.js'
import { openArchive } from '../archive/read.js'
import type { ArchiveEntry } from '../archive/read.js'
import { createJsonListReader, type JsonListLimits } from '../base/json-list.js'
import { OpenFile } from '../base/open-file.js'
import { Refusal } from '../base/refusal.js'
import { artifactPath, packageFiles, packageRoot, schemaVersion } from './package.js'
import type { ArtifactEntry } from './package.js'

/** A package that is being read; its version is one that this program knows. */
export interface Package {
  /** The parsed manifest, of which only `schemaVersion` was looked at. */
  readonly manifest: Readonly<Record<string, unknown>>
  /** The JSON of a small file; undefined if the package has no such file. Refuses what is not JSON. */
  json(name: string): Promise<unknown>
  /**
   * Hands out the items of a file that is a list in JSON, one by one, with pauses; none if the package has no such file.
   * Refuses what is not a list, or has more than `maxItems`. What `onItem` throws passes through.
   */
  list(name: string, maxItems: number, onItem: (item: unknown, index: number) => void): Promise<void>
  has(name: string): boolean
  /** Projects that have an artifact, and of which deployment, where the index says so. */
  artifacts(): Array<Pick<ArtifactEntry, 'projectId' | 'deployId' | 'sha256'>>
  /** Writes an entry to a new file, checked against its size, its CRC, and a SHA-256 (hex) where one is given. */
  extract(name: string, path: string, options?: { sha256?: string | null; signal?: AbortSignal | undefined }): Promise<void>
  close(): void
}

/** Each deployment may have two. */
const maxEntries = 500_000
/** Of a list of records. */
const maxListBytes = 256 * 1024 * 1024
/** What is parsed without a pause: a record, whose scripts and outputs make it long, or the manifest. */
const ofRecord = { itemBytes: 8 * 1024 * 1024, itemValues: 50_000 }
const ofWhole = { itemBytes: 16 * 1024 * 1024, itemValues: 250_000, items: 1 }

/**
 * Opens a package. Refuses what archive/read.ts refuses, (`invalid`) not_a_package, broken_package, and (`conflict`)
 * newer_package for a schemaVersion above ours.
 */
export async function openPackage(path: string): Promise<Package> {
  // Nothing is unpacked as a whole, so what it all would come to is no matter.
  const archive = await openArchive(path, { maxEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER })
  const entries = new Map(
    archive.entries.filter(({ kind }) => kind === 'file').map(entry => [entry.path, entry] as const)
  )
  const reader = createEntryReader(archive)
  const find = (name: string): ArchiveEntry | undefined => entries.get(packageRoot + name)

  /** `frame`: bytes before and after those of the file, which make a list of it. */
  async function readList(
    entry: ArchiveEntry, limits: JsonListLimits, onItem: (item: unknown, index: number) => void, frame = ''
  ): Promise<void> {
    const name = entry.path.slice(packageRoot.length)
    if (entry.size > maxListBytes) throw broken(name, `it has ${entry.size} bytes, at most ${maxListBytes} are read`)
    const items = createJsonListReader(onItem, limits)
    try {
      items.push(Buffer.from(frame.slice(0, 1)))
      await reader.read(entry, piece => items.push(piece))
      items.push(Buffer.from(frame.slice(1)))
      items.end()
    } catch (error) {
      throw error instanceof SyntaxError ? broken(name, `it cannot be read as JSON (${error.message})`, error) : error
    }
  }

  async function json(name: string): Promise<unknown> {
    const entry = find(name)
    let value: unknown
    if (entry !== undefined) await readList(entry, ofWhole, item => { value = item }, '[]')
    return value
  }

  async function list(name: string, maxItems: number, onItem: (item: unknown, index: number) => void): Promise<void> {
    const entry = find(name)
    if (entry !== undefined) await readList(entry, { ...ofRecord, items: maxItems }, onItem)
  }

  try {
    const manifest = checkManifest(await json(packageFiles.manifest))
    return {
      manifest,
      json,
      list,
      has: name => find(name) !== undefined,
      artifacts() {
        const prefix = packageRoot + artifactPath('').slice(0, -'.zip'.length)
        const ids = [...entries.keys()].flatMap(name => (name.startsWith(prefix) && name.endsWith('.zip') ? [name.slice(prefix.length, -4)] : []))
        const index = indexOf(manifest)
        return ids.map(projectId => ({ projectId, ...readIndexed(index.get(projectId)) }))
      },
      async extract(name, to, { sha256 = null, signal } = {}) {
        const entry = find(name)
        if (entry === undefined) throw broken(name, 'it is not there')
        const hash = sha256 === null ? null : createHash('sha256')
        const file = new OpenFile(to, 'wx', 0o600)
        try {
          await reader.read(entry, piece => {
            signal?.throwIfAborted()
            hash?.update(piece)
            file.writeSync(piece)
          })
        } finally {
          file.close()
        }
        if (hash !== null && hash.digest('hex') !== sha256) throw broken(name, 'its SHA-256 is not the one the manifest gives')
      },
      close: () => archive.close()
    }
  } catch (error) {
    archive.close()
    throw error
  }
}

function checkManifest(value: unknown): Record<string, unknown> {
  const why = `it has no ${packageRoot}${packageFiles.manifest} with a schemaVersion`
  if (typeof value !== 'object' || value === null) throw notPackage(why)
  const manifest = value as Record<string, unknown>
  const version = manifest['schemaVersion']
  if (!Number.isSafeInteger(version) || (version as number) < 1) throw notPackage(why)
  if ((version as number) <= schemaVersion) return manifest
  const sentence = `The package cannot be imported: its schemaVersion is ${String(version)}, this svc knows ${schemaVersion}; update svc first`
  throw new Refusal('conflict', 'newer_package', sentence, { field: 'manifest.schemaVersion' })
}

/** The index may be missing, or have been written by somebody else: what in it makes no sense is left out. */
function indexOf(manifest: Record<string, unknown>): Map<unknown, unknown> {
  const items: unknown = manifest['artifacts']
  return new Map(Array.isArray(items) ? items.map(item => [(item as ArtifactEntry | null)?.projectId, item]) : [])
}

function readIndexed(item: unknown): Pick<ArtifactEntry, 'deployId' | 'sha256'> {
  const { deployId, sha256 } = (item ?? {}) as Record<string, unknown>
  const isHash = typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)
  return { deployId: typeof deployId === 'string' ? deployId : null, sha256: isHash ? sha256 : null }
}

function notPackage(why: string): Refusal {
  return new Refusal('invalid', 'not_a_package', `The file cannot be imported: it is not a package of svc export, ${why}`)
}

function broken(name: string, why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'broken_package', `The package cannot be imported: ${name}: ${why}`, { field: name, cause })
}
