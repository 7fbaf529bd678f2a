import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { Test } from 'tap'
import { listedDeployment, type DeploymentRow } from '../../../lib/model/deployment.js'
import { type Label, newProject, type Project } from '../../../lib/model/project.js'
import { realDisk, type Disk, type DiskFile } from '../../../lib/core/store/disk.js'
import { loadSqlite } from '../../../lib/core/store/memory.js'
import { recover } from '../../../lib/core/store/recovery.js'
import { countDeploymentsByDay, listDeployments } from '../../../lib/core/store/tables/deployments.js'
import { readSettings } from '../../../lib/core/store/tables/server.js'
import { openStore, type StoreOptions } from '../../../lib/core/store/durable-store.js'
import type { Reader, Store } from '../../../lib/core/store/database.js'
import { layDatabase } from '../../support/new-database.js'

/** Shared parts of the store's tests: complete records, and a disk that fails on demand. */

const at = '2026-01-02T03:04:05.678Z'

export function aProject(fields: Partial<Project> = {}): Project {
  const id = fields.id ?? 'proj_a'
  const made = newProject({ name: 'Site', deployPath: `/srv/${id}` }, { id, token: `token-${id}`, at })
  return { ...made, ...fields }
}

export function aDeployment(fields: Partial<DeploymentRow> = {}): DeploymentRow {
  return {
    id: 'dep_a',
    projectId: 'proj_a',
    projectName: 'Site',
    status: 'success',
    triggerSource: 'cli',
    startTime: at,
    endTime: null,
    duration: null,
    rollbackOf: null,
    exact: false,
    undoOf: null,
    promotedFrom: null,
    uploadedBytes: null,
    reusedFrom: null,
    signedBy: [],
    statement: null,
    override: null,
    message: null,
    env: 'production',
    hasArtifact: true,
    archiveBytes: 123,
    archiveSha256: 'ab'.repeat(32),
    fileCount: null,
    errorMessage: null,
    actor: null,
    tokenId: null,
    actorIp: '127.0.0.1',
    claimedIp: null,
    traceId: null,
    placed: null,
    provenance: null,
    treeSha256: null,
    heldFor: null,
    holdUntil: null,
    startAt: null,
    approvals: [],
    confirmSeconds: null,
    revertedAt: null,
    revertReason: null,
    checks: [],
    steps: [{ name: 'store', status: 'success', startedAt: at, endedAt: at }],
    scripts: [{ step: 'preDeploy', source: 'client', script: 'echo hello', async: false }],
    ...fields
  }
}

export function aLabel(fields: Partial<Label> = {}): Label {
  return {
    id: 'tag_a',
    name: 'Web',
    color: 'blue',
    sortOrder: 0,
    projectCount: 0,
    createdAt: at,
    updatedAt: at,
    ...fields
  }
}

/** The reason to skip a test that needs the sqlite3 program; false if it is installed. */
export function withoutSqlite3(): string | false {
  try {
    execFileSync('sqlite3', ['--version'])
    return false
  } catch {
    return 'the sqlite3 program is not on this machine'
  }
}

/** Reads the columns that triggers maintain for each project and each day. */
export function summariesOf(db: Reader): unknown {
  return {
    projects: db.all('SELECT id, status, lastDeployAt, tagIds FROM projects ORDER BY id'),
    days: countDeploymentsByDay(db, ''),
    broken: db.all('SELECT projectId, deployId, since FROM brokenProjects ORDER BY projectId')
  }
}

/** Computes the same from the rows. */
export function countedSummaries(db: Reader): unknown {
  const projects = db.all('SELECT id FROM projects ORDER BY id').map(row => {
    const id = String(row['id'])
    const deployments = db.all(
      'SELECT status, startTime FROM deployments WHERE projectId = ? ORDER BY orderedAt DESC, position DESC',
      id
    )
    const goesOn = deployments.some(({ status }) => status === 'queued' || status === 'running')
    const tags = db.all('SELECT tagId FROM projectTags WHERE projectId = ? ORDER BY tagId', id)
    return {
      id,
      status: goesOn ? 'running' : (deployments[0]?.status ?? 'idle'),
      lastDeployAt: deployments[0]?.startTime ?? null,
      tagIds: JSON.stringify(tags.map(({ tagId }) => tagId))
    }
  })
  const days = db.all(
    'SELECT substr(startTime, 1, 10) AS date, status, count(*) AS deployments FROM deployments GROUP BY date, status ORDER BY date, status'
  )
  const broken = projects.flatMap(({ id }) => {
    const rows = listDeployments(db, { projectId: id, limit: 1000 }).filter(
      ({ status }) => status === 'success' || status === 'failed'
    )
    const good = rows.findIndex(row => row.status === 'success' && listedDeployment(row).backgroundFailed !== true)
    const failures = good === -1 ? rows : rows.slice(0, good)
    const [newest] = failures
    return newest === undefined ? [] : [{ projectId: id, deployId: newest.id, since: failures.at(-1)?.startTime }]
  })
  return { projects, days, broken }
}

/** Opens a store and closes it when the test ends. */
export async function aStore(t: Test, options: Partial<StoreOptions> = {}): Promise<Store> {
  const given = { directory: t.testdir(), ...options }
  if (options.disk === undefined) await layDatabase(given.directory)
  const store = await openStore(given)
  t.teardown(() => store.close())
  return store
}

/** Reads what a start after a kill would find. */
export async function onDisk(
  directory: string
): Promise<{ settings: Record<string, string>; held: number; lines: number }> {
  const databasePath = join(directory, 'svc.db')
  const redoPath = `${databasePath}.redo`
  const { memory, held, redo } = recover({ sqlite: await loadSqlite(), disk: realDisk, databasePath, redoPath })
  const settings = readSettings(memory)
  memory.close()
  return { settings, held: held as number, lines: redo?.lines.length ?? 0 }
}

export interface FaultyDisk extends Disk {
  /** Number of steps since it was last reset: each write, sync, rename, creation, removal … is one. */
  steps: number
  /** The step that fails, and all after it while `once` is false; 0 means none. */
  failAt: number
  once: boolean
  /** The error code of a failing step. */
  code: string
  /** The part of a failing write that reaches the disk. */
  share: number
}

/** A disk whose n-th step fails. Steps that only read fail as well. */
export function createFaultyDisk(disk: Disk): FaultyDisk {
  const faulty: FaultyDisk = {
    steps: 0,
    failAt: 0,
    once: true,
    code: 'EIO',
    share: 0,
    read: path => (fail('read'), disk.read(path)),
    readPieces: (path, pieceBytes) => (fail('read'), disk.readPieces(path, pieceBytes)),
    loadPieces: async (path, pieceBytes) => (fail('read'), disk.loadPieces(path, pieceBytes)),
    size: path => (fail('stat'), disk.size(path)),
    open: async path => (fail('open'), fileOf(await disk.open(path))),
    create: async path => (fail('open'), fileOf(await disk.create(path))),
    rename: async (from, to) => (fail('rename'), disk.rename(from, to)),
    remove: async path => (fail('unlink'), disk.remove(path)),
    syncDirectory: async path => (fail('fsync'), disk.syncDirectory(path))
  }

  function isFailing(): boolean {
    faulty.steps++
    return faulty.failAt > 0 && (faulty.once ? faulty.steps === faulty.failAt : faulty.steps >= faulty.failAt)
  }

  function fail(call: string): void {
    if (isFailing())
      throw Object.assign(new Error(`${faulty.code}: the disk was told to fail, ${call}`), { code: faulty.code })
  }

  function fileOf(file: DiskFile): DiskFile {
    return {
      read: async (position, bytes) => (fail('read'), file.read(position, bytes)),
      truncate: async bytes => (fail('ftruncate'), file.truncate(bytes)),
      sync: async () => (fail('fdatasync'), file.sync()),
      close: async () => file.close(),
      async write(bytes, position) {
        try {
          fail('write')
        } catch (error) {
          await file.write(bytes.subarray(0, Math.floor(bytes.length * faulty.share)), position)
          throw error
        }
        await file.write(bytes, position)
      }
    }
  }

  return faulty
}
