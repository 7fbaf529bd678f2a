import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { Writable } from 'node:stream'
import { linkSync, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ZipSource } from '../../core/archive/source.js'
import type { Actor, AuditEvent } from '../../model/audit.js'
import { schemaVersion } from '../../core/store/schema.js'
import { type Clock, machineTimeOf } from '../../base/clock.js'
import { hasCode, isDiskFull, messageOf, reasonOf, Refusal, spaceCure } from '../../base/errors.js'
import type { Followed, Store } from '../../core/store/database.js'
import type { Image } from '../../core/store/page-file.js'
import { type DeploymentState, deploymentStateAt, deploymentStates } from '../../core/store/tables/deployments.js'
import {
  type BackupFile,
  backupFormat,
  type BackupManifest,
  backupRoot,
  databaseName,
  deploymentsName,
  type FoundFile,
  isOfDeployments,
  listOthers,
  manifestName
} from './format.js'

export interface BackupNeeds extends SnapshotNeeds {
  /** The version of this program. */
  version: string
  audit: { record(event: AuditEvent): Promise<void> }
  /** Called when a backup fails that nobody has cancelled. */
  failed?(reason: string): void
}

/** The actor, the progress and the cancellation of a backup. */
export interface BackupWriting {
  actor: Actor
  /** Called once with the number of bytes that will be read. */
  onBegin?: (expectedBytes: number) => void
  /** Called with the number of bytes that have been read so far. */
  onProgress?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

/** Writes a backup of the data directory as it is now (format.ts), without its seal. */
export type Backups = ReturnType<typeof createBackups>

const fileMode = 0o600
/** The SHA-256 of a file without contents. */
const emptySha256 = createHash('sha256').digest('hex')

/**
 * Creates the backups of a server. The module that writes zips is loaded on first use: a start must not wait for it.
 */
export function createBackups(needs: BackupNeeds) {
  return {
    /**
     * Writes the zip to `out`, which stays open: an empty file or any stream. Refuses like `takeSnapshot` and
     * core/archive/write.ts.
     */
    async write(out: Writable | FileHandle, writing: BackupWriting): Promise<BackupManifest> {
      try {
        return await write(needs, out, writing)
      } catch (error) {
        if (writing.signal?.aborted !== true) needs.failed?.(messageOf(error))
        throw error
      }
    }
  }
}

async function write(
  needs: BackupNeeds,
  out: Writable | FileHandle,
  { actor, onBegin = () => {}, onProgress = () => {}, signal }: BackupWriting
): Promise<BackupManifest> {
  const [{ writeZip }, { writeZipFile }] = await Promise.all([
    import('../../core/archive/write.js'),
    import('../../core/archive/write-file.js')
  ])
  await needs.audit.record({ action: 'backup.create', actor, detail: null })
  const snapshot = await takeSnapshot(needs)
  try {
    onBegin(snapshot.files.reduce((total, { bytes }) => total + bytes, 0))
    const manifest = manifestOf(needs, snapshot)
    const sources = snapshot.files.map(file => sourceOf(file, manifest.files))
    const last = {
      path: backupRoot + manifestName,
      mode: fileMode,
      mtimeMs: snapshot.atMs,
      contents: () => Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`)
    }
    const zipping = { last, onProgress: ({ bytes }: { bytes: number }) => onProgress(bytes), signal }
    await (out instanceof Writable ? writeZip(sources, out, zipping) : writeZipFile(sources, out, zipping))
    return manifest
  } finally {
    // The next start removes what could not be removed here.
    await snapshot.discard().catch(() => {})
  }
}

/** Creates the manifest. Its list of files is filled while they are read. */
function manifestOf({ home, version }: BackupNeeds, { atMs, notes }: Snapshot): BackupManifest {
  return {
    format: backupFormat,
    createdAt: new Date(atMs).toISOString(),
    version,
    schemaVersion,
    host: hostname(),
    directory: home.directory,
    files: [],
    notes
  }
}

/**
 * Hashes the file while it is packed. The hash object is dropped afterwards, because there may be many thousands of
 * files.
 */
function sourceOf({ path, source, bytes, mtimeMs, isGrowing }: SnapshotFile, files: BackupFile[]): ZipSource {
  const file: BackupFile = { path, bytes, sha256: emptySha256, mtimeMs }
  files.push(file)
  let hash: Hash | null = null
  let leftBytes = bytes
  const onRead = (piece: Uint8Array): void => {
    hash ??= createHash('sha256')
    hash.update(piece)
    leftBytes -= piece.length
    if (leftBytes > 0) return
    file.sha256 = hash.digest('hex')
    hash = null
  }
  return { path: backupRoot + path, kind: 'file', source, bytes, mode: fileMode, mtimeMs, isGrowing, onRead }
}

/*
 * Takes a snapshot of a data directory while a server uses it.
 *
 *   1. Create a second name in tmp/ for every file of deployments/, so that a file that retention removes later stays
 *      until it is read.
 *   2. The moment of the snapshot: take an image of the database. Before anything else can run, also create second
 *      names for the files that were added since step 1, and measure the outputs that are being written.
 *   3. Drop the files that were removed between steps 1 and 2, if no record refers to them. Read the other files.
 *
 * Archives, before-images and manifests are never changed. They are created before their record and removed after it, so the names of
 * step 2 are exactly the files that the records of step 2 refer to. Outputs only grow: of an output that may still
 * grow, only the bytes measured in step 2 are read.
 */

export interface SnapshotFile extends FoundFile {
  /** The path to read the file from, or its bytes. */
  source: string | Uint8Array
  /** Whether the file may grow while it is read. */
  isGrowing: boolean
}

/** A data directory as of one moment. */
export interface Snapshot {
  atMs: number
  files: SnapshotFile[]
  notes: string[]
  /** Removes the second names. */
  discard(): Promise<void>
}

export interface SnapshotNeeds {
  store: Pick<Store, 'image' | 'all' | 'get' | 'follow'>
  home: { directory: string; deployments: string; tmp: string }
  clock: Clock
  ids: { token(): string }
}

/** The ending of a directory in tmp/ that the next start removes: deploy/recovery.ts. */
const scratchEnding = '.backup'
/** The endings of archives, and of what they share. A pack without an index is of no use. */
const archiveEnding = /\.(?:zip|index|pack)$/
/** The ending of copies (deploy/files.ts). A way back does without those that retention removed meanwhile. */
const imagesEnding = /\.(?:before|scripted)\.zip$/
/** Number of links that are created at the same time. */
const linksAbreast = 16
/** An archive without a record that is newer than this is left out: its record is about to be written. */
const arrivingMs = 60_000
const statesPerPage = 2000

/** Takes a snapshot. Refuses `no_space`, and what the store refuses for an image. */
export async function takeSnapshot(needs: SnapshotNeeds): Promise<Snapshot> {
  const { home, ids } = needs
  const scratch = join(home.tmp, ids.token() + scratchEnding)
  const discard = (): Promise<void> => rm(scratch, { recursive: true, force: true })
  try {
    await mkdir(scratch, { recursive: true, mode: 0o700 })
    const links = createLinks(home.deployments, scratch)
    await links.addAll()
    const { image, atMs, ...moment } = await takeImage(needs, links)
    try {
      await writeFile(join(scratch, databaseName), image.pieces, { mode: 0o600, flag: 'wx' })
    } finally {
      image.release()
    }
    const others = await listOthers(home.directory)
    const deployments = await measure(moment, links, machineTimeOf(needs.clock))
    const database = fileOf(databaseName, join(scratch, databaseName), { size: image.bytes, mtimeMs: atMs })
    const beside = await Promise.all(others.files.map(file => besideOf(home.directory, file)))
    return { atMs, files: [database, ...beside, ...deployments], notes: others.notes, discard }
  } catch (error) {
    await discard().catch(() => {})
    throw explain(error, home.tmp)
  }
}

interface Moment {
  image: Image
  atMs: number
  /** The names in deployments/. */
  names: string[]
  /** The names that no record refers to. */
  strays: Set<string>
  /** The size in bytes of each output that is being written. */
  growing: Map<string, number>
}

async function takeImage({ store, home, clock }: SnapshotNeeds, links: Links): Promise<Moment> {
  const moment: Omit<Moment, 'image'> = { atMs: 0, names: [], strays: new Set(), growing: new Map() }
  const followed = store.follow('deployments')
  try {
    const readStates = await followStates(store, followed)
    const image = await store.image(() => {
      moment.atMs = clock.now()
      const present = readdirSync(home.deployments).filter(isOfDeployments)
      const states = readStates()
      for (const name of present) links.addNow(name)
      for (const { id, isOver } of states.values()) {
        const size = isOver ? null : sizeOf(join(home.deployments, `${id}.log`))
        if (size !== null) moment.growing.set(`${id}.log`, size)
      }
      moment.names = chosen({ present: new Set(present), linked: links.names(), states, strays: moment.strays })
    })
    return { ...moment, image }
  } finally {
    followed.stop()
  }
}

/**
 * Reads the states of all deployments, a page at a time. The returned function reads again those that have changed
 * since.
 */
async function followStates(
  store: SnapshotNeeds['store'],
  followed: Followed
): Promise<() => Map<string, DeploymentState>> {
  followed.take()
  const byPosition = new Map<number, DeploymentState>()
  const byId = new Map<string, DeploymentState>()
  const add = (state: DeploymentState): void => {
    byPosition.set(state.position, state)
    byId.set(state.id, state)
  }
  for (let after = -1; ; ) {
    const page = deploymentStates(store, after, statesPerPage)
    page.forEach(add)
    if (page.length < statesPerPage) break
    after = page.at(-1)?.position as number
    await nextTurn()
  }
  return () => {
    const changed = followed.take()
    if (changed === null) return new Map(deploymentStates(store).map(state => [state.id, state]))
    for (const position of changed) {
      const before = byPosition.get(position)
      const state = deploymentStateAt(store, position)
      if (before !== undefined && byId.get(before.id) === before) byId.delete(before.id)
      if (state === undefined) byPosition.delete(position)
      else add(state)
    }
    return byId
  }
}

interface Choice {
  present: Set<string>
  linked: string[]
  states: Map<string, { hasArtifact: boolean }>
  /** Filled by `chosen`. */
  strays: Set<string>
}

/**
 * Returns the names that existed at the moment. It also returns names that had just been removed but that a record
 * still refers to, because an import was replacing them.
 */
function chosen({ present, linked, states, strays }: Choice): string[] {
  return linked.filter(name => {
    const state = states.get(name.slice(0, name.indexOf('.')))
    if (state === undefined && present.has(name)) strays.add(name)
    if (state === undefined) return present.has(name)
    if (present.has(name)) return true
    return !archiveEnding.test(name) || (!imagesEnding.test(name) && state.hasArtifact)
  })
}

function sizeOf(path: string): number | null {
  return lstatSync(path, { throwIfNoEntry: false })?.size ?? null
}

type Links = ReturnType<typeof createLinks>

/**
 * Creates the second names. If the file system does not support links, the original path is used; then the backup fails
 * if a file is removed before it is read.
 */
function createLinks(deployments: string, scratch: string) {
  const paths = new Map<string, string>()
  const kept = (name: string): string => join(deployments, name)
  const second = (name: string): string => join(scratch, name)
  /** A file that was removed after its name was read needs no link. */
  const settle = (name: string, error: unknown): void => {
    if (hasCode(error, 'ENOENT')) return
    paths.set(name, error === null ? second(name) : kept(name))
  }
  return {
    async addAll(): Promise<void> {
      const names = readdirSync(deployments).filter(isOfDeployments)
      const add = async (): Promise<void> => {
        for (let name = names.pop(); name !== undefined; name = names.pop()) {
          const error = await link(kept(name), second(name)).then(
            () => null,
            (error: unknown) => error
          )
          settle(name, error)
        }
      }
      await Promise.all(Array.from({ length: linksAbreast }, add))
    },
    /** Links a file that is not linked yet. */
    addNow(name: string): void {
      if (paths.has(name)) return
      try {
        linkSync(kept(name), second(name))
        settle(name, null)
      } catch (error) {
        settle(name, error)
      }
    },
    names: (): string[] => [...paths.keys()],
    /** Returns the path to read the file from. */
    pathOf: (name: string): string => paths.get(name) as string
  }
}

async function measure(
  { names, strays, growing }: Omit<Moment, 'image' | 'atMs'>,
  links: Links,
  nowMs: number
): Promise<SnapshotFile[]> {
  const files: SnapshotFile[] = []
  for (const name of [...names].sort()) {
    const path = links.pathOf(name)
    const stats = await stat(path)
    const isArriving = strays.has(name) && nowMs - stats.mtimeMs < arrivingMs
    if (!stats.isFile() || isArriving) continue
    const size = growing.get(name) ?? stats.size
    files.push(
      fileOf(`${deploymentsName}/${name}`, path, { size, mtimeMs: stats.mtimeMs, isGrowing: name.endsWith('.log') })
    )
  }
  return files
}

function fileOf(
  path: string,
  source: string,
  { size, mtimeMs, isGrowing = false }: { size: number; mtimeMs: number; isGrowing?: boolean }
): SnapshotFile {
  return { path, source, bytes: size, mtimeMs, isGrowing }
}

/**
 * config.json is replaced as a whole, so reading it at once gives a consistent copy. Any other file may be a growing
 * log.
 */
async function besideOf(directory: string, file: FoundFile): Promise<SnapshotFile> {
  const path = join(directory, file.path)
  if (file.path !== 'config.json') return { ...file, source: path, isGrowing: true }
  const source = await readFile(path)
  return { ...file, source, bytes: source.length, isGrowing: false }
}

function explain(error: unknown, tmp: string): unknown {
  if (error instanceof Refusal || !isDiskFull(error)) return error
  const sentence = `Cannot write an image of the database to "${tmp}": ${reasonOf(error)}. ${spaceCure(error)}`
  return new Refusal('unavailable', 'no_space', sentence, { cause: error })
}
