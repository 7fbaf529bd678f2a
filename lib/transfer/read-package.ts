import { createHash } from 'node:crypto'
import { createEntryReader } from '../archive/entry-data.js'
import { openArchive } from '../archive/read.js'
import type { ArchiveEntry } from '../archive/read.js'
import { OpenFile } from '../base/open-file.js'
import { Refusal } from '../base/refusal.js'
import { artifactPath, packageFiles, packageRoot, schemaVersion } from './package.js'
import type { ArtifactEntry } from './package.js'

/** A package that is being read; its version is one that this program knows. */
export interface Package {
  /** The parsed manifest, of which only `schemaVersion` was looked at. */
  readonly manifest: Readonly<Record<string, unknown>>
  /** A file's JSON; undefined: the package has none. Refuses what is no JSON. */
  json(name: string): Promise<unknown>
  has(name: string): boolean
  /** Projects that have an artifact, and of which deployment, where the index says so. */
  artifacts(): Array<Pick<ArtifactEntry, 'projectId' | 'deployId' | 'sha256'>>
  /** Writes an entry to a new file, checked against its size, its CRC, and a SHA-256 (hex) where one is given. */
  extract(name: string, path: string, options?: { sha256?: string | null; signal?: AbortSignal | undefined }): Promise<void>
  close(): void
}

/** Each deployment may have two. */
const maxEntries = 500_000
/** Records as text, held in memory at once to be parsed. */
const maxJsonBytes = 256 * 1024 * 1024

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

  async function json(name: string): Promise<unknown> {
    const entry = find(name)
    if (entry === undefined) return undefined
    if (entry.size > maxJsonBytes) throw broken(name, `it has ${entry.size} bytes, at most ${maxJsonBytes} are read`)
    const pieces: Buffer[] = []
    await reader.readPieces(entry, piece => void pieces.push(Buffer.from(piece)))
    return parse(Buffer.concat(pieces).toString('utf8'), name)
  }

  try {
    const manifest = checkManifest(await json(packageFiles.manifest))
    return {
      manifest,
      json,
      has: name => find(name) !== undefined,
      artifacts() {
        const prefix = packageRoot + artifactPath('').slice(0, -'.zip'.length)
        const ids = [...entries.keys()].flatMap(name => (name.startsWith(prefix) && name.endsWith('.zip') ? [name.slice(prefix.length, -4)] : []))
        return ids.map(projectId => ({ projectId, ...indexed(manifest, projectId) }))
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

/** The index may be missing, or be somebody else's: what in it cannot be meant is not there. */
function indexed(manifest: Record<string, unknown>, projectId: string): Pick<ArtifactEntry, 'deployId' | 'sha256'> {
  const index = manifest['artifacts']
  const found: unknown = Array.isArray(index) ? index.find(item => (item as ArtifactEntry | null)?.projectId === projectId) : null
  const { deployId, sha256 } = (found ?? {}) as Record<string, unknown>
  const isHash = typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)
  return { deployId: typeof deployId === 'string' ? deployId : null, sha256: isHash ? sha256 : null }
}

function parse(text: string, name: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''))
  } catch (cause) {
    throw broken(name, `it is not JSON (${(cause as Error).message})`, cause)
  }
}

function notPackage(why: string): Refusal {
  return new Refusal('invalid', 'not_a_package', `The file cannot be imported: it is not a package of svc export, ${why}`)
}

function broken(name: string, why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'broken_package', `The package cannot be imported: ${name}: ${why}`, { field: name, cause })
}
