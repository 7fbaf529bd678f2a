import { open, rm } from 'node:fs/promises'
import { instantOf } from '../base/clock.js'
import { notFound, Refusal } from '../base/errors.js'
import { writeChanges } from '../base/shared/audit.js'
import { type Actor, judged, systemActor } from '../model/audit.js'
import { changes, type Readers } from '../model/readers.js'
import {
  type ListedLock,
  type ListedMaintenance,
  type Lock,
  ownerWords,
  type Maintenance,
  type MaintenanceRow,
  shownMaintenance
} from '../model/marks.js'
import type { Project } from '../model/project.js'
import type { Reader, Transaction } from '../core/store/database.js'
import {
  findProject,
  requireProject,
  deleteExpiredLocks,
  deleteLock,
  deleteMaintenance,
  findLock,
  findMaintenance,
  insertLock,
  insertMaintenance,
  listLocks,
  listMaintenance,
  locksOn
} from '../core/store/tables/projects.js'
import { sha256 } from '../base/digests.js'
import { formatBytes } from '../base/shared/api.js'
import type { FoundFile } from '../core/install/target-file.js'
import type { Executors } from '../core/install/unpack/executors.js'
import { policyOf } from '../model/policy.js'
import { findRights } from '../core/proc/identity.js'
import type { DeployFiles } from './files.js'
import { locked } from './gateway.js'
import type { DeployNeeds } from './needs.js'
import { auditsWithin } from './record.js'
import { type TargetTurn, type TargetTurns, workOnTargetFile } from './queue.js'

/** Identifies a lock. A null `projectId` means the whole server. */
export type LockPlace = Pick<Lock, 'projectId' | 'kind'>

/** A lock as a caller asks for it. */
export interface LockRequest extends LockPlace {
  reason: string
  seconds: number
  /** Replaces the reason and the end of the caller's own lock. */
  renew: boolean
  actor: Actor
}

/** The removal of a lock. */
export interface UnlockRequest extends LockPlace {
  actor: Actor
  /** Whether the caller may remove the lock of another owner. */
  mayTakeOver: boolean
  /** Why the caller removes the lock of another owner. */
  takeOver: string | null
}

/** Places and removes locks. Audited. */
export function createLocks(needs: Pick<DeployNeeds, 'store' | 'clock' | 'audit' | 'auditWithin'>) {
  const { store, clock } = needs
  const auditWithin = auditsWithin(needs)
  const now = (): string => new Date(clock.now()).toISOString()

  return {
    /** Returns the locks in force. With `projectId`, only those that refuse deployments of that project. */
    list(projectId?: string): ListedLock[] {
      const locks = projectId === undefined ? listLocks(store, now()) : locksOn(store, projectId, now())
      return locks.map(lock => ({ ...lock, projectName: nameOf(store, lock.projectId) }))
    },

    /** Refuses: 404, 409 `locked` if there is one of this kind, unless `renew` replaces the caller's own. */
    lock: ({ projectId, kind, reason, seconds, renew, actor }: LockRequest): Promise<ListedLock> =>
      store.write(tx => {
        const projectName = nameOf(tx, projectId)
        deleteExpiredLocks(tx, now())
        const before = findLock(tx, { projectId, kind })
        if (before !== undefined) {
          if (!renew || before.owner !== actor.name) throw locked(before, projectName, clock.now())
          deleteLock(tx, before)
        }
        const expiresAt = new Date(clock.now() + seconds * 1000).toISOString()
        const lock: Lock = {
          projectId,
          kind,
          owner: actor.name,
          reason,
          createdAt: before?.createdAt ?? now(),
          expiresAt
        }
        insertLock(tx, lock)
        const renewed = before === undefined ? [] : changes<Renewed>(before, lock, renewedReaders)
        const sentence =
          before === undefined ? `until ${expiresAt}: ${reason}` : `renewed until ${expiresAt}: ${reason}`
        const detail = writeChanges(sentence, renewed)
        auditWithin(tx, { action: actionOf(lock, 'lock'), actor, projectId, target: projectId, detail })
        return { ...lock, projectName }
      }),

    /** Returns the removed lock. Refuses: 404, 403 `other_owner`. */
    unlock: ({ projectId, kind, actor, mayTakeOver, takeOver }: UnlockRequest): Promise<ListedLock> =>
      store.write(tx => {
        const projectName = nameOf(tx, projectId)
        deleteExpiredLocks(tx, now())
        const lock = findLock(tx, { projectId, kind })
        if (lock === undefined) throw notFound('Lock', projectId ?? 'server')
        const isOwn = lock.owner === actor.name
        if (!isOwn && !(mayTakeOver && takeOver !== null)) throw otherLockOwner({ ...lock, projectName }, mayTakeOver)
        deleteLock(tx, lock)
        auditWithin(tx, {
          action: actionOf(lock, 'unlock'),
          actor,
          projectId,
          target: projectId,
          detail: isOwn
            ? null
            : `taken over from ${ownerWords(lock.owner, projectName)} ("${lock.reason}"): ${takeOver}`
        })
        return { ...lock, projectName }
      })
  }
}

/** What a renewal of a lock changes. */
type Renewed = Pick<Lock, 'reason' | 'expiresAt'>

const renewedReaders: Readers<Renewed> = { fields: { reason: 'everybody', expiresAt: 'everybody' } }

function otherLockOwner({ owner, reason, projectName }: ListedLock, mayTakeOver: boolean): Refusal {
  const advice = mayTakeOver
    ? 'To remove it, say why in "takeOver" (svc unlock --take-over)'
    : 'Only its owner, or who has no deploy token, can remove it'
  return new Refusal(
    'forbidden',
    'other_owner',
    `The lock belongs to ${ownerWords(owner, projectName)} ("${reason}"). ${advice}`
  )
}

/** Returns the name of a project, or null for the whole server. Refuses: 404. */
function nameOf(db: Reader, projectId: string | null): string | null {
  if (projectId === null) return null
  return requireProject(db, projectId).name
}

function actionOf({ projectId }: Lock, verb: 'lock' | 'unlock'): string {
  return `${projectId === null ? 'server' : 'project'}.${verb}`
}

/*
 * The maintenance of projects: a file in the target, which the web server looks for, and a row that says who placed it.
 * Both are changed in a turn of the target, so no deployment of the project runs at the same time.
 *
 * After a kill a start makes file and row agree (`reconcile`). `on` writes the row before the file, `off` removes the
 * row after the file. So there is never a file without a row, and a row without a file means that either `on` had not
 * placed it, or `off` had removed it: the caller got no answer, and the project is not in maintenance. The start
 * removes that row. An extraction that was interrupted is put back before that, and `off` syncs the directory before
 * the row is removed. If the target cannot be reached, for example because its disk is not mounted, the row stays.
 */

/** Begins or ends the maintenance of a project. */
export interface MaintenanceRequest {
  projectId: string
  actor: Actor
  /** Replaces a file of somebody else (`on`), or removes the file although somebody changed it (`off`). */
  force: boolean
}

/** Maximum size of the file that the policy `maintenancePage` names. */
const maxPageBytes = 1024 * 1024
/** The longest wait for deployments of the project. A client, or a proxy before svc, does not wait much longer. */
const maxWaitMs = 30_000
/** Everybody can read the file, unless the project's umask or policy forbids it: the web server is another user. */
const fileMode = 0o644

export interface MaintenanceNeeds extends DeployNeeds {
  files: DeployFiles
  executors: Executors
  turns: TargetTurns
}

/** The maintenance of projects. Changes are audited. */
export class Maintenances {
  readonly #needs: MaintenanceNeeds
  readonly #auditWithin: ReturnType<typeof auditsWithin>

  constructor(needs: MaintenanceNeeds) {
    this.#needs = needs
    this.#auditWithin = auditsWithin(needs)
  }

  /** Returns the maintenance of a project; null if it is off. Refuses: 404. */
  of(projectId: string): Maintenance | null {
    requireProject(this.#needs.store, projectId)
    const row = findMaintenance(this.#needs.store, projectId)
    return row === undefined ? null : shownMaintenance(row)
  }

  /** Returns the maintenance of all projects, or of one. */
  list(projectId?: string): ListedMaintenance[] {
    return listMaintenance(this.#needs.store).flatMap(row => {
      const project = findProject(this.#needs.store, row.projectId)
      return project === undefined || (projectId ?? project.id) !== project.id ? [] : [listed(row, project.name)]
    })
  }

  /**
   * Places the file. Refuses: 404, 409 `maintenance_on`, `maintenance_file_exists`, `maintenance_page`,
   * `deployment_running`, 503 `target_missing`, and what an extraction refuses.
   */
  async on(request: MaintenanceRequest & { reason: string | null }): Promise<Maintenance> {
    const { store, turns } = this.#needs
    const { projectId } = request
    // Refused at once, not after a wait for the target.
    refuseInMaintenance(store, requireProject(store, projectId), 'Cannot begin the maintenance')
    const turn = { projectId, maxWaitMs, cannot: 'Cannot begin the maintenance' }
    return turns(turn, turn => this.#place(turn, request))
  }

  /**
   * Removes the file. Resolves with the maintenance that has ended; null if it was off already. Refuses: 404, 403
   * `other_owner` unless `mayEndOthers`, 409 `maintenance_changed`, `deployment_running`, 503 `target_missing`.
   */
  async off({
    projectId,
    actor,
    force,
    mayEndOthers
  }: MaintenanceRequest & { mayEndOthers: boolean }): Promise<Maintenance | null> {
    const { store, turns } = this.#needs
    const project = requireProject(this.#needs.store, projectId)
    const known = findMaintenance(store, projectId)
    if (known === undefined) return null
    // A turn would create a missing target, in which no file is found.
    if ((await this.#look(project, known.path)).is === 'unreachable') throw unreachable(project.deployPath)
    const ended = await turns({ projectId, maxWaitMs, cannot: 'Cannot end the maintenance' }, async turn => {
      const row = findMaintenance(store, projectId)
      if (row === undefined) return null
      if (row.by !== actor.name && !mayEndOthers) throw otherOwner(row, project.name)
      actor.checkAgain?.(true)
      await this.#remove(turn, row, { actor, force })
      return row
    })
    return ended === null ? null : shownMaintenance(ended)
  }

  /** Makes files and rows agree after a start. Never rejects. */
  async reconcile(): Promise<void> {
    for (const row of listMaintenance(this.#needs.store)) {
      await this.#settle(row).catch(error =>
        this.#needs.log(`Cannot check the maintenance of project ${row.projectId}`, error)
      )
    }
  }

  async #look(project: Project, path: string): Promise<FoundFile> {
    return workOnTargetFile(this.#needs.executors, await findRights(project), { target: project.deployPath, path })
  }

  async #place(turn: TargetTurn, given: MaintenanceRequest & { reason: string | null }): Promise<Maintenance> {
    const { store, clock, log } = this.#needs
    const { project } = turn
    const { reason, actor, force } = given
    const { maintenanceFile: path, maintenancePage: page } = policyOf(project)
    refuseInMaintenance(store, project, 'Cannot begin the maintenance')
    const before = await turn.file({ path })
    if (before.is === 'unreachable') throw unreachable(project.deployPath)
    if (before.is !== 'absent' && !(force && before.is === 'file')) throw fileExists(path, before.is === 'file')
    const contents = page === null ? Buffer.from(maintenancePage({ ...project, reason })) : await read(turn, page)
    const row: MaintenanceRow = {
      projectId: project.id,
      since: instantOf(clock),
      by: actor.name,
      reason,
      path,
      sha256: sha256(contents).toString('hex')
    }
    await store.write(tx => {
      this.#auditWithin(tx, { ...auditOf('on', project.id, actor), detail: reason })
      insertMaintenance(tx, row)
    })
    try {
      await this.#extract(turn, path, contents)
    } catch (error) {
      await store
        .write(tx => this.#removeRow(tx, row, { actor: systemActor, detail: `"${path}" could not be placed` }))
        .catch(lost => log(`Cannot remove the maintenance of project ${project.id}: the next start tries again`, lost))
      throw error
    }
    await turn.settle()
    return shownMaintenance(row)
  }

  /** Extracts an archive that contains only the file. */
  async #extract(turn: TargetTurn, path: string, contents: Uint8Array): Promise<void> {
    const { files, ids, clock } = this.#needs
    const archivePath = files.upload(ids.token())
    const archive = await open(archivePath, 'wx', 0o600)
    try {
      const source = { path, kind: 'file', source: contents, bytes: contents.length } as const
      const { writeZipFile } = await import('../core/archive/write-file.js')
      await writeZipFile([{ ...source, mode: fileMode, mtimeMs: clock.now() }], archive)
      await turn.extract(archivePath)
    } finally {
      await archive.close()
      await rm(archivePath, { force: true })
    }
  }

  #removeRow(
    tx: Transaction,
    { projectId }: MaintenanceRow,
    { actor, detail }: { actor: Actor; detail: string | null }
  ) {
    deleteMaintenance(tx, projectId)
    this.#auditWithin(tx, { ...auditOf('off', projectId, actor), detail })
  }

  async #remove(
    turn: TargetTurn,
    row: MaintenanceRow,
    { actor, force }: Pick<MaintenanceRequest, 'actor' | 'force'>
  ): Promise<void> {
    const { path, reason } = row
    const found = await turn.file({ path, remove: { sha256: force ? null : row.sha256 } })
    if (found.is === 'unreachable') throw unreachable(turn.project.deployPath)
    if (found.is === 'other' || (found.is === 'file' && !found.isRemoved)) throw changed(path, found.is === 'file')
    await this.#needs.store.write(tx => this.#removeRow(tx, row, { actor: judged(actor), detail: reason }))
  }

  /** Removes the row of a maintenance whose file is not there. */
  async #settle(row: MaintenanceRow): Promise<void> {
    const { store, log } = this.#needs
    const project = findProject(store, row.projectId)
    if (project === undefined) return
    if ((await this.#look(project, row.path)).is !== 'absent') return
    const detail = `"${row.path}" is not in the target`
    await store.write(tx => this.#removeRow(tx, row, { actor: systemActor, detail }))
    log(`Project ${row.projectId} is not in maintenance: "${row.path}" is not in its target`)
  }
}

function listed({ projectId, by: owner, reason, since: createdAt }: MaintenanceRow, projectName: string) {
  return { projectId, projectName, kind: 'maintenance' as const, owner, reason, createdAt, expiresAt: null }
}

/** Returns the contents of the page that the policy names. */
async function read(turn: TargetTurn, page: string): Promise<Uint8Array> {
  const found = await turn.file({ path: page, readBytes: maxPageBytes })
  if (found.is === 'file' && found.contents !== null) return found.contents
  const why = found.is === 'file' ? `is larger than ${formatBytes(maxPageBytes)}` : 'is not a file in the target'
  const sentence = `Cannot begin the maintenance: "${page}", the page of the policy (maintenancePage), ${why}`
  throw new Refusal('conflict', 'maintenance_page', sentence)
}

function refuseInMaintenance(db: Reader, { id, name }: Project, cannot: string): void {
  const row = findMaintenance(db, id)
  if (row === undefined) return
  const why = row.reason === null ? '' : `: "${row.reason}"`
  const since = `${row.since.slice(0, 16).replace('T', ' ')} UTC`
  const sentence = `${cannot}: project ${name} is in maintenance since ${since}, by ${ownerWords(row.by, name)}${why}`
  throw new Refusal('conflict', 'maintenance_on', sentence)
}

function fileExists(path: string, isFile: boolean): Refusal {
  const what = isFile ? 'a file that svc did not put there for maintenance' : 'not a regular file'
  const advice = isFile ? ', replace it (svc maintenance on --force)' : ''
  const sentence =
    `Cannot begin the maintenance: "${path}" in the target is ${what}. Remove it${advice}, or choose another ` +
    'maintenanceFile in the policy'
  return new Refusal('conflict', 'maintenance_file_exists', sentence)
}

function changed(path: string, isFile: boolean): Refusal {
  const how = isFile
    ? 'was changed since svc placed it. Remove it (svc maintenance off --force)'
    : 'is no longer a file. Remove it'
  return new Refusal('conflict', 'maintenance_changed', `Cannot end the maintenance: "${path}" in the target ${how}`)
}

function unreachable(deployPath: string): Refusal {
  const sentence = `The target "${deployPath}" does not exist, or leads elsewhere. Check that its disk is mounted`
  return new Refusal('unavailable', 'target_missing', sentence)
}

function otherOwner({ by }: MaintenanceRow, projectName: string): Refusal {
  const sentence = `The maintenance was begun by ${ownerWords(by, projectName)}. Only its owner, or who has no deploy token, can end it`
  return new Refusal('forbidden', 'other_owner', sentence)
}

function auditOf(state: 'on' | 'off', projectId: string, actor: Actor) {
  return { action: `project.maintenance_${state}`, actor, projectId, target: projectId }
}

/*
 * The page of svc for a project in maintenance. It loads nothing from elsewhere, so that it works while the site does
 * not.
 */

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Returns a complete HTML page with the name of the project and the reason. Pure. */
export function maintenancePage({ name, reason }: { name: string; reason: string | null }): string {
  const title = `${escape(name)} is in maintenance`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>
body { margin: 15vh auto; padding: 0 1.5rem; max-width: 36rem; font: 1.1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e8e8ea; } }
</style>
</head>
<body>
<main>
<h1>${title}</h1>
${reason === null ? '' : `<p>${escape(reason)}</p>\n`}<p>Please try again later.</p>
</main>
</body>
</html>
`
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, found => escapes[found] as string)
}
