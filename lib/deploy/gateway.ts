/* Which releases a project takes, and when: locks, its windows, and the project that they are promoted from. */
import { invalid, Refusal } from '../base/errors.js'
import { countOf } from '../base/text.js'
import type { DeploymentRow } from '../model/deployment.js'
import { type Lock, lockSentence } from '../model/marks.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { openingAt, windowWords } from '../model/windows.js'
import type { Reader } from '../core/store/database.js'
import type { DeployNeeds } from './needs.js'
import { findDeployment, liveDeployment, placements } from '../core/store/tables/deployments.js'
import { isInPlace } from '../core/store/tables/fleet.js'
import { findProject, locksOn, requireProject } from '../core/store/tables/projects.js'

type Policied = Pick<Project, 'name' | 'policy'>

/** Refuses (409 `locked`) a deployment if the project, or the server, is locked. */
export function refuseLocked(db: Reader, { id, name }: Pick<Project, 'id' | 'name'>, nowMs: number): void {
  const [lock] = locksOn(db, id, new Date(nowMs).toISOString())
  if (lock !== undefined) throw locked(lock, lock.projectId === null ? null : name, nowMs)
}

/** Returns the refusal of a deployment that a lock prevents. */
export function locked(lock: Lock, projectName: string | null, nowMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil((Date.parse(lock.expiresAt) - nowMs) / 1000))
  return new Refusal('conflict', 'locked', lockSentence(lock, projectName), { retryAfterSeconds })
}

/** Refuses (409 `outside_window`) a deployment that is not to begin now. `override`: why it may all the same. */
export function refuseOutside({ name, policy }: Policied, override: string | null, nowMs: number): void {
  const { windows } = policyOf({ policy })
  if (windows === null || override !== null) return
  const opening = openingAt(windows, nowMs)
  if (opening.isOpen) return
  const { reason, opensAtMs } = opening
  const why = reason === null ? `deployments begin ${windowWords(windows)}` : `no deployments now ("${reason}")`
  const next = opensAtMs === null ? 'No window opens within a year' : `The next window opens at ${minute(opensAtMs)}`
  const advice = 'Somebody with the role operator can give a reason to deploy now'
  const sentence = `Project ${name} is outside of its windows: ${why}. ${next}. ${advice}`
  const wait = opensAtMs === null ? {} : { retryAfterSeconds: Math.ceil((opensAtMs - nowMs) / 1000) }
  throw new Refusal('conflict', 'outside_window', sentence, wait)
}

/** When a release is to begin. */
export interface Beginning {
  /** Why it begins outside of the windows of the project; absent: it does not. */
  override?: string | null | undefined
  /** When it begins; absent: at once. */
  startAt?: string | null | undefined
}

/** Refuses a release that may not begin when it is to: what `refuseOutside` refuses, and a time that has passed or is too far ahead. */
export function refuseBeginning(
  project: Policied,
  { override = null, startAt = null }: Beginning,
  nowMs: number
): void {
  refuseStart(startAt, nowMs)
  refuseOutside(project, override, startAt === null ? nowMs : Date.parse(startAt))
}

/** The longest time before a deployment begins, in days. */
const maxStartDays = 30

function refuseStart(startAt: string | null, nowMs: number): void {
  if (startAt === null) return
  const aheadMs = Date.parse(startAt) - nowMs
  const fault =
    aheadMs < 0
      ? 'that time has passed'
      : aheadMs > maxStartDays * 86_400_000
        ? `at most ${maxStartDays} days ahead`
        : null
  if (fault !== null) throw invalid('startAt', `Cannot begin the deployment at ${startAt}: ${fault}`)
}

function minute(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** Refuses (409 `only_promotion`) an upload to a project whose releases come from another one. */
export function refuseUpload(db: Reader, { name, policy }: Policied): void {
  const { promoteFrom } = policyOf({ policy })
  if (promoteFrom === null) return
  const from = findProject(db, promoteFrom.projectId)?.name
  if (from === undefined) {
    const gone = `Project ${name} takes releases of ${promoteFrom.projectId} only, which was deleted. Change its policy promoteFrom`
    throw new Refusal('conflict', 'only_promotion', gone)
  }
  const sentence = `Project ${name} takes releases of ${from} only: svc promote ${from} ${name}`
  throw new Refusal('conflict', 'only_promotion', sentence)
}

/**
 * Returns the deployment that brought the release of another one: of an exact rollback, an undo or a repair, whose archives have
 * only what differed, an earlier one. Returns the row itself if there is none.
 */
export function releaseOf(db: Reader, row: DeploymentRow): DeploymentRow {
  const placed = placements(db, row.projectId)
  const before = (id: string): string | undefined => {
    const at = placed.findIndex(each => each.id === id)
    return at === -1 ? undefined : placed[at + 1]?.id
  }
  let release: DeploymentRow | undefined = row
  // A damaged record must not lead around in a circle.
  for (let steps = 0; release?.exact && steps <= placed.length; steps++) {
    const id: string | undefined = release.rollbackOf ?? before(release.undoOf ?? release.id)
    release = id === undefined ? undefined : findDeployment(db, id)
  }
  return release === undefined || release.exact ? row : release
}

/** Returns the deployment by which a release is live in its project; undefined: it is not. */
function liveBy(db: Reader, source: DeploymentRow): DeploymentRow | undefined {
  if (isInPlace(db, source.projectId, source.id)) return source
  const live = liveDeployment(db, source.projectId)
  if (live === undefined || !isInPlace(db, source.projectId, live.id)) return undefined
  return releaseOf(db, live).id === releaseOf(db, source).id ? live : undefined
}

/**
 * Checks that a release may be promoted to a project. Refuses: (`not_found`) a project that is gone, 409 `only_promotion` if
 * the policy names another project, `not_promotable` if it did not succeed, is of the project itself, is no
 * longer live, or has not been live for long enough.
 */
export function refusePromotion(
  { store: db, clock }: Pick<DeployNeeds, 'store' | 'clock'>,
  source: DeploymentRow,
  project: Project
): void {
  const refuse = (why: string, retryAfterSeconds?: number): never => {
    const sentence = `Cannot promote deployment ${source.id} to ${project.name}: ${why}`
    throw new Refusal(
      'conflict',
      'not_promotable',
      sentence,
      retryAfterSeconds === undefined ? {} : { retryAfterSeconds }
    )
  }
  if (source.projectId === project.id) refuse('it belongs to this project. Roll back to it')
  if (source.status !== 'success') refuse(`it is ${source.status}`)
  const { promoteFrom } = policyOf(project)
  if (promoteFrom === null) return
  if (promoteFrom.projectId !== source.projectId) refuseUpload(db, project)
  requireProject(db, source.projectId)
  const live = liveBy(db, source)
  if (live === undefined) return refuse(`it is not live in ${source.projectName} any more`)
  const liveMs = clock.now() - Date.parse(live.endTime ?? live.startTime)
  const missingMs = promoteFrom.soakMinutes * 60_000 - liveMs
  if (missingMs <= 0) return
  const minutes = countOf(Math.ceil(missingMs / 60_000), 'minute')
  refuse(
    `it must be live in ${source.projectName} for ${minutes} more (policy promoteFrom.soakMinutes)`,
    Math.ceil(missingMs / 1000)
  )
}
