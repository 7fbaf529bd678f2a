/*
 * Deployments that wait before they begin: until somebody has approved them, or until their time. They are in no queue, so
 * others of their project go ahead, and they are judged again when they begin (run.ts). Their records say what they wait
 * for and until when, and a start takes them up again (recovery.ts).
 */
import { isWaitingToBegin } from '../base/shared/api.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Approval } from '../model/policy.js'
import { countOf } from '../base/text.js'
import { StopRequest } from './failure.js'
import type { DeployNeeds } from './needs.js'
import type { QueueEntry } from './queue.js'
import { notHeld, recordProgress } from './record.js'
import type { Planned } from './turn.js'

/** A deployment that waits. */
interface Waiter extends Pick<QueueEntry, 'drop'> {
  planned: Pick<Planned, 'row' | 'live'>
  /** Adds the deployment to the queue. */
  begin(): void
}

/** The longest time between two looks at the clock, which may be set. */
const lookEveryMs = 60_000
/** How late a deployment may still begin by itself: a server that was stopped for longer has missed its time. */
const maxLateMs = 60 * 60_000
/** Time between two attempts to record that a deployment begins. */
const retryMs = 15_000
/** Maximum number of deployments of a project that wait. Each has an archive on disk. */
export const maxWaiting = 100

/** The deployments of a server that wait before they begin. */
export type WaitingDeployments = ReturnType<typeof createWaiting>

/** Creates an empty list. */
export function createWaiting({ store, clock, log }: Pick<DeployNeeds, 'store' | 'clock' | 'log'>) {
  const waiters = new Map<string, Waiter & { timer?: NodeJS.Timeout }>()

  function arm(id: string, ms?: number): void {
    const waiter = waiters.get(id)
    if (waiter === undefined) return
    clearTimeout(waiter.timer)
    const leftMs = Math.max(0, Date.parse(waiter.planned.row.holdUntil ?? '') - clock.now())
    waiter.timer = setTimeout(() => void due(id), ms ?? Math.min(leftMs, lookEveryMs)).unref()
  }

  function takeBack(id: string): Waiter | undefined {
    const waiter = waiters.get(id)
    clearTimeout(waiter?.timer)
    waiters.delete(id)
    return waiter
  }

  async function due(id: string): Promise<void> {
    const row = waiters.get(id)?.planned.row
    if (row?.holdUntil == null) return
    const lateMs = clock.now() - Date.parse(row.holdUntil)
    if (lateMs < 0) return arm(id)
    const at = minuteWords(row.holdUntil)
    if (row.heldFor === 'approval') return end(id, `Nobody approved the deployment before ${at}`)
    if (lateMs > maxLateMs)
      return end(id, `The server did not run at ${at}, when the deployment was to begin. Push again`)
    try {
      await store.write(tx => recordProgress(tx, id, notHeld))
    } catch (error) {
      log(`Cannot begin deployment ${id} yet`, error)
      return arm(id, retryMs)
    }
    changed(id, notHeld)
  }

  async function end(id: string, sentence: string): Promise<void> {
    const waiter = takeBack(id)
    const request = new StopRequest('cancel', sentence)
    waiter?.planned.live.stop(request)
    await waiter?.drop(request)
  }

  function changed(id: string, patch: Partial<DeploymentRow>): void {
    const waiter = waiters.get(id)
    if (waiter === undefined) return
    const { row, live } = waiter.planned
    Object.assign(row, patch)
    if (isWaitingToBegin(row)) {
      for (const line of linesOfWait(row, null)) live.output.say(line)
      arm(id)
    } else takeBack(id)?.begin()
  }

  return {
    /** Adds a deployment whose record says that it waits. */
    add(waiter: Waiter): void {
      waiters.set(waiter.planned.row.id, waiter)
      arm(waiter.planned.row.id)
    },
    has: (id: string): boolean => waiters.has(id),
    /** Returns the number of deployments of a project. */
    count: (projectId: string): number =>
      [...waiters.values()].filter(({ planned }) => planned.row.projectId === projectId).length,
    /** Takes over what was recorded: the deployment begins, or waits for something else. */
    changed,
    /** Lets no time end the wait of a deployment until `resume` is called: somebody decides about it. */
    pause: (id: string): void => clearTimeout(waiters.get(id)?.timer),
    resume: (id: string): void => arm(id),
    /** Removes a deployment and returns it; undefined: it does not wait. */
    takeBack,
    /** Leaves all to the next start: their records stay as they are. */
    leave(): void {
      for (const id of [...waiters.keys()]) {
        const planned = takeBack(id)?.planned
        planned?.live.end(planned.row)
      }
    }
  }
}

/** Returns what the output says about a deployment that waits. `approval`: what it needs; null: the lines said it before. */
export function linesOfWait(
  { id, heldFor, holdUntil }: Pick<DeploymentRow, 'id' | 'heldFor' | 'holdUntil'>,
  approval: Approval | null
): string[] {
  if (holdUntil === null) return []
  const at = minuteWords(holdUntil)
  if (heldFor === 'schedule') return [`→ begins at ${at}; "svc cancel ${id}" cancels it`]
  if (heldFor !== 'approval' || approval === null) return []
  const by = `${approval.notPusher ? 'somebody else' : 'somebody'} with the role ${approval.roles.join(' or ')}`
  const what = `${countOf(approval.count, 'approval')} by ${by}`
  return [`→ waits for ${what} until ${at}, and fails then: svc approve ${id}`]
}

/** Returns a moment in words: `2026-12-20 09:00 UTC`. */
export function minuteWords(at: string): string {
  return `${at.slice(0, 16).replace('T', ' ')} UTC`
}
