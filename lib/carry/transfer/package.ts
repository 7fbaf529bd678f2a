/*
 * The package of export and import (§2.14): a zip with all entries below `svc-export/`.
 *
 *   settings.json               key → value, of the settings that were ever set
 *   projects.json               list of projects as `GET /api/projects` returns them, including tokens
 *   deployments.json            list of finished deployments, newest first, each with the end of its output   (logs)
 *   artifacts/<projectId>.zip   the files for the project's target                                       (artifacts)
 *   manifest.json               schemaVersion, timestamp, included, projectIds, artifacts; last, when all is known
 *
 * In addition to §2.14, with contents that a reader may ignore:
 *
 *   categories.json, tags.json  the labels that the projects' categoryId and tagIds refer to
 *   log-sources.json            the log sources of the projects
 *   variables.json              of scripts: {projectId, name, value, secret, updatedAt}; the value of a secret is null
 *   notification-targets.json   all of them, including secrets; not in a package of selected projects
 *   outputs/<deployId>.log      the whole output with its times, as it is stored                             (logs)
 *   manifests/<deployId>.manifest  the files that the deployment put in place                                (logs)
 *   components/<deployId>.json  the list of its components, as it was sent                                   (logs)
 *   manifests/<deployId>.scripted  what its scripts changed among these, without contents (core/install/scripted-file.ts)
 *
 * An artifact is the archive of the project's live deployment, or, if none is known, of its newest success that still
 * has one. If there is no such archive, the target itself is packed, without the files that match the ignore rules; the
 * index then has no deployId. A project on nodes of a fleet has only archives. Nodes, placements and rollouts stay with
 * their hub: a package moves projects to a server that has other nodes. Packages of other programs are accepted too: only `manifest.json` with its schemaVersion
 * is required, and of a record only the fields without a default.
 */

import { createHash } from 'node:crypto'
import type { DeploymentRow } from '../../model/deployment.js'
import type { Attestation } from '../../model/statement.js'
import { createEntryReader } from '../../core/archive/entry-data.js'
import { checkNames } from '../../core/archive/names.js'
import { type ArchiveEntry, openArchive } from '../../core/archive/read.js'
import { oneLine } from '../../base/text.js'
import { OpenFile } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'

/** The version of the format (§9). A newer package is refused. */
export const schemaVersion = 1
/** The prefix of every path in the zip. */
export const packageRoot = 'svc-export/'

/** The names of the JSON files. */
export const packageFiles = {
  manifest: 'manifest.json',
  settings: 'settings.json',
  categories: 'categories.json',
  tags: 'tags.json',
  projects: 'projects.json',
  logSources: 'log-sources.json',
  variables: 'variables.json',
  notificationTargets: 'notification-targets.json',
  deployments: 'deployments.json'
} as const

export const artifactPath = (projectId: string): string => `artifacts/${projectId}.zip`
/** The path of a deployment's output. */
export const outputPath = (deployId: string): string => `outputs/${deployId}.log`
/** The path of a deployment's manifest. */
export const deployedPath = (deployId: string): string => `manifests/${deployId}.manifest`

/** The path of what the scripts of a deployment changed. */
export const scriptedPath = (deployId: string): string => `manifests/${deployId}.scripted`

/** The path of the list of components of a deployment. */
export const componentsPath = (deployId: string): string => `components/${deployId}.json`

export type IncludedPart = 'settings' | 'projects' | 'deployments' | 'artifacts'

/** An artifact in the index. */
export interface ArtifactEntry {
  projectId: string
  /** The path below `svc-export/`. */
  path: string
  /** The deployment whose archive it is; null if it was packed from the target. */
  deployId: string | null
  bytes: number
  sha256: string | null
}

/** The contents of manifest.json. */
export interface Manifest {
  schemaVersion: number
  timestamp: string
  /** The version of the program that wrote the package. */
  version: string
  included: IncludedPart[]
  projectIds: string[]
  deploymentCount: number
  artifacts: ArtifactEntry[]
  /** Sentences on what could not be included. */
  notes: string[]
}

/** A deployment in `deployments.json`. `hasArtifact` says whether its archive is in the package. */
export interface PackedDeployment extends DeploymentRow {
  /** The end of the output, without times. */
  output: string
  outputTruncated?: boolean
  /** Its receipt. Absent: the deployment did not get one. */
  receipt?: string
  /** Its statement and the signatures, as they were sent. Absent: it lacks one. */
  attested?: SentStatement
}

export type SentStatement = Pick<Attestation, 'statement' | 'signatures'>

/** A variable of a project's scripts; the value of a secret is null. */
export interface PackedVariable {
  projectId: string
  name: string
  value: string | null
  secret: boolean
  updatedAt: string
}

/** A project's log source (§2.5). Its table belongs to another module. */
export interface LogSourceRecord {
  id: string
  projectId: string
  label: string
  filePath: string
  kind: string
  sortOrder: number
  createdAt: string
  updatedAt: string
}

/** An open package, whose version this program supports. */
export interface Package {
  /** The parsed manifest, of which only `schemaVersion` was checked. */
  readonly manifest: Readonly<Record<string, unknown>>
  /** Returns the JSON of a small file; undefined if the package has no such file. Refuses what is not JSON. */
  json(name: string): Promise<unknown>
  /**
   * Calls `onItem` with the items of a file that is a JSON list, one by one, with pauses; not at all if the package has
   * no such file. Refuses what is not a list, or has more than `maxItems`. Errors of `onItem` are passed on.
   */
  list(name: string, maxItems: number, onItem: (item: unknown, index: number) => void): Promise<void>
  /** Returns whether the package has the file. */
  has(name: string): boolean
  /** Returns the projects that have an artifact, and its deployment and SHA-256 if the index contains them. */
  artifacts(): Array<Pick<ArtifactEntry, 'projectId' | 'deployId' | 'sha256'>>
  /** Writes an entry to a new file and checks its size, its CRC, and its SHA-256 (hex) if one is given. */
  extract(
    name: string,
    path: string,
    options?: { sha256?: string | null; signal?: AbortSignal | undefined }
  ): Promise<void>
  /** Closes the file of the package. */
  close(): void
}

/** Maximum number of entries: up to four per deployment, of which most have two. */
const maxEntries = 500_000
/** Maximum size of a list of records. */
const maxListBytes = 256 * 1024 * 1024
/** Limits of JSON that is parsed without a pause: a record, whose scripts and outputs make it long, or the manifest. */
const ofRecord = { itemBytes: 8 * 1024 * 1024, itemValues: 50_000 }
const ofWhole = { itemBytes: 16 * 1024 * 1024, itemValues: 250_000, items: 1 }

/**
 * Opens a package. Refuses like core/archive/read.ts, and (`invalid`) `not_a_package`, `broken_package`, and (`conflict`)
 * `newer_package` for a schemaVersion above the supported one.
 */
export async function openPackage(path: string): Promise<Package> {
  // Entries are unpacked one by one, so the total uncompressed size does not matter.
  const archive = await openArchive(path, { maxEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER })
  try {
    checkEntries(archive.entries)
  } catch (error) {
    archive.close()
    throw error
  }
  const root = rootOf(archive.entries)
  const entries = new Map(
    archive.entries.filter(({ kind }) => kind === 'file').map(entry => [entry.path, entry] as const)
  )
  const reader = createEntryReader(archive)
  const find = (name: string): ArchiveEntry | undefined => entries.get(root + name)

  interface ListReading {
    limits: JsonListLimits
    onItem(item: unknown, index: number): void
    /** Two characters, put before and after the bytes of the file to make a list of them. */
    frame?: '[]'
  }

  async function readList(entry: ArchiveEntry, { limits, onItem, frame }: ListReading): Promise<void> {
    const name = entry.path.slice(root.length)
    if (entry.size > maxListBytes) throw broken(name, `it has ${entry.size} bytes, at most ${maxListBytes} are allowed`)
    const items = createJsonListReader(onItem, limits)
    try {
      if (frame !== undefined) items.push(Buffer.from(frame[0] as string))
      await reader.read(entry, piece => items.push(piece))
      if (frame !== undefined) items.push(Buffer.from(frame[1] as string))
      items.end()
    } catch (error) {
      throw error instanceof SyntaxError ? broken(name, `it cannot be read as JSON (${error.message})`, error) : error
    }
  }

  async function json(name: string): Promise<unknown> {
    const entry = find(name)
    let value: unknown
    const onItem = (item: unknown): void => void (value = item)
    if (entry !== undefined) await readList(entry, { limits: ofWhole, onItem, frame: '[]' })
    return value
  }

  async function list(name: string, maxItems: number, onItem: (item: unknown, index: number) => void): Promise<void> {
    const entry = find(name)
    if (entry !== undefined) await readList(entry, { limits: { ...ofRecord, items: maxItems }, onItem })
  }

  try {
    const manifest = checkManifest(await json(packageFiles.manifest))
    return {
      manifest,
      json,
      list,
      has: name => find(name) !== undefined,
      artifacts() {
        const prefix = root + artifactPath('').slice(0, -'.zip'.length)
        const ids = [...entries.keys()].flatMap(name =>
          name.startsWith(prefix) && name.endsWith('.zip') ? [name.slice(prefix.length, -'.zip'.length)] : []
        )
        const index = indexOf(manifest)
        return ids.map(projectId => ({ projectId, ...readIndexed(index.get(projectId)) }))
      },
      async extract(name, to, { sha256 = null, signal } = {}) {
        const entry = find(name)
        if (entry === undefined) throw broken(name, 'it is missing')
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
        if (hash !== null && hash.digest('hex') !== sha256)
          throw broken(name, 'its SHA-256 differs from the one in the manifest')
      },
      close: () => archive.close()
    }
  } catch (error) {
    archive.close()
    throw error
  }
}

/** Refuses two entries that some file system takes for one, and what is neither a file nor a directory. */
function checkEntries(entries: readonly ArchiveEntry[]): void {
  checkNames(entries, { windows: false, folds: () => ({ letterCase: true, normalForm: true }) })
  const link = entries.find(({ kind }) => kind === 'symlink')
  if (link !== undefined) throw broken(oneLine(link.path), 'it is a symbolic link, and a package contains only files')
}

/**
 * Returns the prefix of the entries: that of svc, or the only top directory, because packages of programs of the same family
 * differ in its name.
 */
function rootOf(entries: readonly ArchiveEntry[]): string {
  const tops = new Set(entries.map(({ path }) => path.slice(0, path.indexOf('/') + 1)))
  const [only = ''] = tops
  return tops.size === 1 && only !== '' ? only : packageRoot
}

function checkManifest(value: unknown): Record<string, unknown> {
  const why = `it does not contain ${packageRoot}${packageFiles.manifest} with a schemaVersion`
  if (typeof value !== 'object' || value === null) throw notPackage(why)
  const manifest = value as Record<string, unknown>
  const version = manifest['schemaVersion']
  if (!Number.isSafeInteger(version) || (version as number) < 1) throw notPackage(why)
  if ((version as number) <= schemaVersion) return manifest
  const sentence = `The package cannot be imported: its schemaVersion is ${String(version)}, but this svc supports at most ${schemaVersion}. Update svc first`
  throw new Refusal('conflict', 'newer_package', sentence, { field: 'manifest.schemaVersion' })
}

/**
 * Returns the index of artifacts by project. The index may be missing or come from another program: invalid items are
 * ignored.
 */
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
  return new Refusal(
    'invalid',
    'not_a_package',
    `The file cannot be imported: it is not a package of "svc export": ${why}`
  )
}

function broken(name: string, why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'broken_package', `The package cannot be imported: ${name}: ${why}`, {
    field: name,
    cause
  })
}

/*
 * Reads an untrusted JSON array in bounded steps. JSON.parse takes a whole text without a pause: 250 MB delay every
 * other request by a minute. Here the bytes come in pieces of any size. Each item is parsed by itself when its last
 * byte has arrived, and an item that is too large is refused before it is parsed.
 */

export interface JsonListLimits {
  items: number
  /** Maximum size of one item in bytes. */
  itemBytes: number
  /** Maximum number of values and keys in one item, counted by their separators. */
  itemValues: number
}

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]
const byteOrderMark = Buffer.from('\ufeff')

/** Creates a reader that passes each item of a list to `onItem`. Errors of `onItem` are thrown unchanged. */
export function createJsonListReader(onItem: (item: unknown, index: number) => void, limits: JsonListLimits) {
  let state: 'before' | 'within' | 'after' = 'before'
  let index = 0
  let held: Buffer[] = []
  let heldBytes = 0
  let values = 0
  /** Number of open lists and objects within the item. */
  let depth = 0
  let isText = false
  let isEscaped = false

  function hold(bytes: Uint8Array): void {
    heldBytes += bytes.length
    if (heldBytes > limits.itemBytes) throw new SyntaxError(`item ${index} has more than ${limits.itemBytes} bytes`)
    if (bytes.length > 0) held.push(Buffer.from(bytes))
  }

  /** Ends an item at a comma or at the end of the list. An empty list has no item. */
  function finish(isLast: boolean): void {
    const whole = Buffer.concat(held, heldBytes).toString('utf8')
    // A whole text, including its byte order mark, may have been put into a list.
    const text = index === 0 ? whole.replace(/^\ufeff/, '') : whole
    held = []
    heldBytes = 0
    values = 0
    if (isLast && index === 0 && isBlank(text)) return
    if (index >= limits.items) throw new SyntaxError(`it has more than ${limits.items} items`)
    const item: unknown = JSON.parse(text)
    onItem(item, index++)
  }

  function begin(bytes: Uint8Array): number {
    hold(bytes)
    const all = Buffer.concat(held, heldBytes)
    if (all.length < 3 && byteOrderMark.subarray(0, all.length).equals(all)) return bytes.length
    const bare = all.subarray(0, 3).equals(byteOrderMark) ? 3 : 0
    const at = all.findIndex((byte, place) => place >= bare && !isSpace(byte))
    if (at === -1) return bytes.length
    if (all[at] !== openList) throw new SyntaxError('it must be a JSON list')
    const before = heldBytes - bytes.length
    held = []
    heldBytes = 0
    state = 'within'
    return at + 1 - before
  }

  /** Counts the values of an item. Returns true at its end. */
  function isEnd(byte: number): boolean {
    if (isText) {
      if (isEscaped) isEscaped = false
      else if (byte === backslash) isEscaped = true
      else if (byte === quote) isText = false
      return false
    }
    if (byte === quote) isText = true
    else if (depth === 0 && (byte === comma || byte === closeList)) return true
    else if (byte === openList || byte === openObject) depth++
    else if (byte === closeList || byte === closeObject) depth--
    else if (byte !== comma && byte !== colon) return false
    if (++values > limits.itemValues) throw new SyntaxError(`item ${index} has more than ${limits.itemValues} values`)
    return false
  }

  return {
    /**
     * Takes bytes that may be split anywhere. Calls back once for each complete item. Throws a SyntaxError if the list is
     * invalid.
     */
    push(bytes: Uint8Array): void {
      let from = state === 'before' ? begin(bytes) : 0
      for (let at = from; at < bytes.length && state === 'within'; at++) {
        if (!isEnd(bytes[at] as number)) continue
        hold(bytes.subarray(from, at))
        const isLast = bytes[at] === closeList
        finish(isLast)
        from = at + 1
        if (isLast) state = 'after'
      }
      if (state === 'within') hold(bytes.subarray(from))
      else if (state === 'after' && !bytes.subarray(from).every(isSpace))
        throw new SyntaxError('it continues after the end of the list')
    },

    /** Ends the list. Throws a SyntaxError if it is incomplete. */
    end(): void {
      if (state !== 'after') throw new SyntaxError('it ends before the end of the list')
    }
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isBlank(text: string): boolean {
  return /^[ \t\r\n]*$/.test(text)
}
