/*
 * Writes a package (package.ts) to a stream, from front to back, so that it can go to a file or to a socket.
 *
 *   plan      read the contents from the store at one moment
 *   write     collect deployments.json in a file in tmp/, and create second names there for the archives (retention may
 *             remove the first name at any time); then write everything through core/archive/write.ts, the manifest last
 *
 * Archives are stored as they are; records and outputs are deflated. Only the records are held in memory.
 */
import { copyFile, link, open, readFile, stat, type FileHandle, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { findKept, writeWhole } from '../../core/archive/pack-set.js'
import type { ZipSource } from '../../core/archive/source.js'
import { writeZip, type ZipProgress } from '../../core/archive/write.js'
import { writeZipFile } from '../../core/archive/write-file.js'
import { closing } from '../../base/async.js'
import { pick } from '../../base/fields.js'
import { notFound, nullIfMissing, Refusal } from '../../base/errors.js'
import type { Actor } from '../../model/audit.js'
import type { DeploymentRow } from '../../model/deployment.js'
import { type Label, type LabelKind, type Project, projectReaders } from '../../model/project.js'
import type { NotificationTarget } from '../../model/setting.js'
import { showing } from '../../model/readers.js'
import { packingResult } from '../../core/install/helper-answers.js'
import { wholeLines } from '../../core/install/manifest.js'
import { runHelper } from '../../core/proc/helper.js'
import { findRights } from '../../core/proc/identity.js'
import type { Reader } from '../../core/store/database.js'
import { findReceipt } from '../../core/store/tables/receipts.js'
import { latestSuccessWithArchive, listDeployments, liveDeployment } from '../../core/store/tables/deployments.js'
import { listLabels, listProjects, listVariables } from '../../core/store/tables/projects.js'
import { isPlaced } from '../../core/store/tables/fleet.js'
import { findAttestation } from '../../core/store/tables/signing-keys.js'
import { listNotificationTargets, readSettings } from '../../core/store/tables/server.js'
import { openScratch, type Scratch, type TransferNeeds } from './needs.js'
import type { PackJob } from './pack-helper.js'
import { packTarget, writeToFile, type PackedTarget } from './pack-target.js'
import {
  type ArtifactEntry,
  artifactPath,
  componentsPath,
  deployedPath,
  type IncludedPart,
  type LogSourceRecord,
  type Manifest,
  outputPath,
  packageFiles,
  packageRoot,
  type PackedDeployment,
  type PackedVariable,
  schemaVersion,
  scriptedPath
} from './package.js'

/** The parts and options of an export. */
export interface ExportRequest {
  /** The ids of the projects; null for all projects. */
  projects: string[] | null
  /** Whether the archives of the projects are included. */
  artifacts: boolean
  /** Whether deployment records and their outputs are included. */
  logs: boolean
  /** Maximum number of deployments per project, the newest ones; null for all. */
  recent: number | null
  /** Ignore patterns for targets, which are packed if no archive is kept. */
  ignore: string[]
  ignoreBuiltin: boolean
  actor: Actor
}

/** The progress and cancellation of an export. */
export interface WriteOptions {
  /** Called with the number of bytes read so far. */
  onProgress?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

export type ExportPlan = ReturnType<typeof planExport>

/** The size of an output in a record, like in `GET /api/logs`. `outputs/` has the whole output. */
const listedOutputBytes = 4 * 1024
/** Outputs up to this size are read at once; a larger one, which may still grow, is copied first. */
const wholeOutputBytes = 4 * 1024 * 1024
/** Text of records is collected up to this length before it is written. */
const batchLength = 256 * 1024
/** No limit on the number of deployments. */
const noLimit = Number.MAX_SAFE_INTEGER
const fileMode = 0o100600

/** The contents of the store at one moment. */
interface Snapshot {
  settings: Record<string, string>
  projects: Project[]
  categories: Label[]
  tags: Label[]
  logSources: LogSourceRecord[]
  variables: PackedVariable[]
  notificationTargets: NotificationTarget[]
  deployments: DeploymentRow[]
  /** For each project, the deployment whose archive is the project's artifact; null if the target is packed. */
  artifacts: Map<string, DeploymentRow | null>
}

/** Plans an export. Refuses an unknown project (404). */
export function planExport(needs: TransferNeeds, request: ExportRequest) {
  const snapshot = readSnapshot(needs, request)
  const archives = [...snapshot.artifacts.values()]
  return {
    /** Approximate size of the package in bytes, without the targets that have to be packed. */
    expectedBytes: archives.reduce((total, row) => total + (row?.archiveBytes ?? 0), 0),

    /** Writes the package to `out`, which stays open: an empty file or any stream. Rejects with the signal's reason. */
    async write(out: Writable | FileHandle, { onProgress = () => {}, signal }: WriteOptions): Promise<Manifest> {
      await needs.audit.record({
        action: 'migration.export',
        actor: request.actor,
        detail: detailOf(snapshot, request)
      })
      return closing(async defer => {
        const scratch = await openScratch(needs.home.tmp, needs.ids)
        defer(() => scratch.discard())
        const writing = { needs, request, snapshot, scratch, signal, atMs: needs.clock.now() }
        const archives = await linkArchives(writing)
        const manifest = manifestOf(writing)
        const sources = sourcesOf(writing, archives, manifest)
        const zipping = { onProgress: (done: ZipProgress) => onProgress(done.bytes), signal }
        await (out instanceof Writable ? writeZip(sources, out, zipping) : writeZipFile(sources, out, zipping))
        return manifest
      })
    }
  }
}

function readSnapshot({ store, logSources }: TransferNeeds, request: ExportRequest): Snapshot {
  const all = listProjects(store)
  const unknown = request.projects?.find(id => all.every(project => project.id !== id))
  if (unknown !== undefined) throw notFound('Project', unknown)
  const projects = request.projects === null ? all : all.filter(({ id }) => request.projects?.includes(id))
  const used = new Set(projects.flatMap(({ categoryId, tagIds }) => [categoryId, ...tagIds]))
  const labels = (kind: LabelKind): Label[] =>
    listLabels(store, kind).filter(({ id }) => request.projects === null || used.has(id))
  const limit = request.recent ?? noLimit
  return {
    settings: readSettings(store),
    projects: projects.map(forPackages),
    categories: labels('category'),
    tags: labels('tag'),
    logSources: projects.flatMap(({ id }) => logSources?.list(store, id) ?? []),
    variables: projects.flatMap(({ id }) =>
      listVariables(store, id).map(({ value, ...variable }) => {
        return { ...variable, value: variable.secret ? null : value }
      })
    ),
    notificationTargets: request.projects === null ? listNotificationTargets(store) : [],
    deployments: request.logs ? projects.flatMap(({ id }) => finishedDeployments(store, id).slice(0, limit)) : [],
    artifacts: new Map(request.artifacts ? projects.map(({ id }) => [id, artifactOf(store, id)]) : [])
  }
}

/** A package contains the deploy tokens, and `***` for what nobody reads: the header values of checks. */
const forPackages = showing<Project>(projectReaders, 'admin')

/**
 * Returns the live deployment, if its archive is kept. If no deployment is known to be live, returns the newest
 * successful one that has an archive, as for a project on nodes: what was live here before it was placed is old. The archive
 * of an exact rollback contains only what differed, so it stands for no target.
 */
function artifactOf(store: Reader, projectId: string): DeploymentRow | null {
  const live = isPlaced(store, projectId) ? undefined : liveDeployment(store, projectId)
  const found = live ?? latestSuccessWithArchive(store, projectId)
  return found?.hasArtifact && !found.exact ? found : null
}

/** Omits queued and running deployments, which would never end on another server. */
function finishedDeployments(store: Reader, projectId: string): DeploymentRow[] {
  const rows = listDeployments(store, { projectId, limit: noLimit })
  return rows.filter(({ status }) => status === 'success' || status === 'failed')
}

function detailOf({ projects, deployments, artifacts }: Snapshot, request: ExportRequest): string {
  const scope = request.projects === null ? 'everything' : projects.map(({ id }) => id).join(', ')
  return `${scope}: ${projects.length} projects, ${deployments.length} deployments, ${artifacts.size} artifacts`
}

/** A package that is being written. */
interface Writing {
  needs: TransferNeeds
  request: ExportRequest
  snapshot: Snapshot
  scratch: Scratch
  signal: AbortSignal | undefined
  atMs: number
}

interface Artifact {
  path: string
  entry: ArtifactEntry
}

/** Creates second names for the archives, so that they stay while they are read, and whole ones of those that share contents. Returns them by project. */
async function linkArchives({ needs, snapshot, scratch }: Writing): Promise<Map<string, Artifact>> {
  const archives = new Map<string, Artifact>()
  for (const [projectId, row] of snapshot.artifacts) {
    if (row === null) continue
    const kept = join(needs.home.deployments, `${row.id}.zip`)
    const second = scratch.file()
    // If the file system does not support links, the original path is used.
    const path =
      (await findKept(kept))?.isShared === true
        ? await writeWhole(kept, second).then(() => second)
        : await link(kept, second).then(
            () => second,
            () => kept
          )
    const bytes = await stat(path).then(
      ({ size }) => size,
      () => null
    )
    if (bytes === null) continue // the archive is gone although its record names it: the target is packed
    const entry = { projectId, path: artifactPath(projectId), deployId: row.id, bytes, sha256: row.archiveSha256 }
    archives.set(projectId, { path, entry })
  }
  return archives
}

function manifestOf({ needs, request, snapshot, atMs }: Writing): Manifest {
  const included: IncludedPart[] = ['settings', 'projects']
  if (request.logs) included.push('deployments')
  if (request.artifacts) included.push('artifacts')
  return {
    schemaVersion,
    timestamp: new Date(atMs).toISOString(),
    version: needs.version,
    included,
    projectIds: snapshot.projects.map(({ id }) => id),
    deploymentCount: snapshot.deployments.length,
    artifacts: [],
    notes: []
  }
}

/** Yields the entries of the package as they are created; the manifest is completed meanwhile. */
async function* sourcesOf(
  writing: Writing,
  archives: Map<string, Artifact>,
  manifest: Manifest
): AsyncGenerator<ZipSource> {
  const { request, snapshot, atMs } = writing
  const json = (name: string, value: unknown): ZipSource =>
    entryOf(name, { source: Buffer.from(`${JSON.stringify(value, null, 2)}\n`), mtimeMs: atMs })
  yield json(packageFiles.settings, snapshot.settings)
  yield json(packageFiles.categories, snapshot.categories)
  yield json(packageFiles.tags, snapshot.tags)
  yield json(packageFiles.projects, snapshot.projects)
  yield json(packageFiles.logSources, snapshot.logSources)
  yield json(packageFiles.variables, snapshot.variables)
  if (request.projects === null) yield json(packageFiles.notificationTargets, snapshot.notificationTargets)
  if (request.logs) {
    const packed = [...archives.values()].map(({ entry }) => entry.deployId as string)
    yield await deploymentsSource(writing, new Set(packed))
    for (const { id } of snapshot.deployments) yield* filesOfDeployment(writing, id)
  }
  for (const project of request.artifacts ? snapshot.projects : []) {
    const artifact = archives.get(project.id) ?? (await packedTarget(writing, project, manifest))
    if (artifact === null) continue
    manifest.artifacts.push(artifact.entry)
    yield await fileSource(artifact.entry.path, artifact.path)
  }
  yield json(packageFiles.manifest, manifest)
}

/** Writes the records to a file one by one, because they may be large in total. */
async function deploymentsSource(
  { needs, snapshot, scratch, signal }: Writing,
  packed: Set<string>
): Promise<ZipSource> {
  const path = scratch.file()
  const file = await open(path, 'wx', 0o600)
  try {
    let text = '['
    for (const [index, row] of snapshot.deployments.entries()) {
      signal?.throwIfAborted()
      const output = await needs.deployments.readOutput(row.id, { maxBytes: listedOutputBytes })
      const record: PackedDeployment = { ...row, hasArtifact: packed.has(row.id), output: output.text }
      if (output.truncated) record.outputTruncated = true
      const receipt = findReceipt(needs.store, row.id)?.text
      if (receipt !== undefined) record.receipt = receipt
      const attested = findAttestation(needs.store, row.id)
      if (attested !== undefined) record.attested = pick(attested, ['statement', 'signatures'])
      text += `${index === 0 ? '' : ','}\n${JSON.stringify(record)}`
      if (text.length < batchLength) continue
      await file.write(text)
      text = ''
    }
    await file.write(`${text}\n]\n`)
  } finally {
    await file.close()
  }
  return fileSource(packageFiles.deployments, path)
}

/**
 * Yields the current output, which a script in the background may still be writing, and what the deployment and its scripts changed.
 */
async function* filesOfDeployment({ needs, scratch }: Writing, deployId: string): AsyncGenerator<ZipSource> {
  const output = join(needs.home.deployments, `${deployId}.log`)
  const stats = await stat(output).catch(nullIfMissing)
  // The record says that the output is lost.
  const isLost = stats?.isFile() !== true
  if (!isLost && stats.size <= wholeOutputBytes) {
    yield entryOf(outputPath(deployId), { source: await readFile(output), mtimeMs: stats.mtimeMs })
  } else if (!isLost) {
    const copy = scratch.file()
    await copyFile(output, copy)
    yield await fileSource(outputPath(deployId), copy)
  }
  for (const [ending, name] of [
    ['manifest', deployedPath(deployId)],
    ['scripted', scriptedPath(deployId)],
    ['sbom.json', componentsPath(deployId)]
  ] as const) {
    const path = join(needs.home.deployments, `${deployId}.${ending}`)
    const stats = await stat(path).catch(nullIfMissing)
    if (stats === null) continue
    yield ending === 'manifest' && stats.isFile()
      ? await manifestSource(path, deployId, scratch)
      : await fileSource(name, path)
  }
}

/** Returns a manifest with whole lines: earlier versions of svc, and other programs, read packages, too. */
async function manifestSource(path: string, deployId: string, scratch: Scratch): Promise<ZipSource> {
  const name = deployedPath(deployId)
  const { size, mtimeMs } = await stat(path)
  if (size <= wholeOutputBytes) {
    const pieces: string[] = []
    for await (const piece of wholeLines(path)) pieces.push(piece)
    return entryOf(name, { source: Buffer.from(pieces.join('')), mtimeMs })
  }
  const copy = scratch.file()
  await writeFile(copy, wholeLines(path), { flag: 'wx', mode: 0o600 })
  return { ...(await fileSource(name, copy)), mtimeMs }
}

/**
 * Packs the target of a project without an archive. Returns null and adds a note if the target cannot be packed, or is on
 * nodes: then the directory here is not that of the project.
 */
async function packedTarget(
  { needs, request, scratch, signal }: Writing,
  project: Project,
  manifest: Manifest
): Promise<Artifact | null> {
  const { id, name, deployPath } = project
  if (isPlaced(needs.store, id)) {
    manifest.notes.push(`"${name}" (${id}): no archive is kept, and its files are on nodes of the fleet`)
    return null
  }
  const path = scratch.file()
  const { ignore, ignoreBuiltin } = request
  const job = { target: deployPath, ignore, ignoreBuiltin }
  const { bytes, note } =
    project.runAs === null
      ? await packTarget({ ...job, signal }, sources => writeToFile(path, sources, signal))
      : await packAs(project, { path, job, signal })
  if (note !== null) manifest.notes.push(`"${name}" (${id}): ${note}`)
  return bytes === 0
    ? null
    : { path, entry: { projectId: id, path: artifactPath(id), deployId: null, bytes, sha256: null } }
}

const packHelper = new URL('./pack-helper.js', import.meta.url)

/** Packs with the rights of the project's user into a file that svc owns. A missing user is reported as a note. */
async function packAs(
  project: Project,
  { path, job, signal }: { path: string; job: PackJob; signal: AbortSignal | undefined }
): Promise<PackedTarget> {
  const rights = await findRights(project).catch((error: unknown) => {
    if (error instanceof Refusal) return error
    throw error
  })
  if (rights === null || rights instanceof Refusal) {
    return {
      bytes: 0,
      note: `no archive is kept, and its target was left out: ${rights?.message ?? 'the project has no user'}`
    }
  }
  const zip = await open(path, 'wx', 0o600)
  try {
    const call = { module: packHelper, rights, job, read: packingResult, descriptors: [zip.fd], signal }
    const { bytes, note } = await runHelper(call)
    return { bytes: bytes === 0 ? 0 : (await zip.stat()).size, note }
  } finally {
    await zip.close()
  }
}

async function fileSource(name: string, path: string): Promise<ZipSource> {
  const { size, mtimeMs } = await stat(path)
  return { ...entryOf(name, { source: path, mtimeMs }), bytes: size }
}

function entryOf(name: string, { source, mtimeMs }: Pick<ZipSource, 'source' | 'mtimeMs'>): ZipSource {
  return { path: packageRoot + name, kind: 'file', source, bytes: source.length, mode: fileMode, mtimeMs }
}
