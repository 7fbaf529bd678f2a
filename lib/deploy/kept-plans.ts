import { planOutdated, type Expected } from '../install/expected.js'
import type { Wishes } from './ownership.js'

/** A plan that an upload can name. */
export interface KeptPlan extends Wishes {
  projectId: string
  /** The deployment whose files were in the target; null if there was none. */
  liveId: string | null
  expected: Expected
  /** Number of files that would be removed. */
  pruned: number
}

/** The newest plans, in memory. */
export interface KeptPlans {
  /** Keeps a plan, and drops the oldest ones. Returns the time for which it is kept, in milliseconds. */
  keep(planId: string, plan: KeptPlan): number
  /** Returns a plan that has not expired. */
  find(planId: string): KeptPlan | undefined
}

const maxPlans = 64
/** Maximum size of the marks of all plans: 16 MB are two million paths. */
const maxBytes = 16 * 1024 * 1024
const keptMs = 15 * 60_000

/** Creates an empty store of plans. `elapsedMs` measures their age. */
export function createKeptPlans(elapsedMs: () => number): KeptPlans {
  const plans = new Map<string, KeptPlan & { untilMs: number }>()
  let bytes = 0

  function drop(planId: string): void {
    bytes -= sizeOf(plans.get(planId))
    plans.delete(planId)
  }

  function dropExpired(): void {
    for (const [planId, { untilMs }] of plans) if (untilMs <= elapsedMs()) drop(planId)
  }

  return {
    keep(planId, plan) {
      dropExpired()
      bytes += sizeOf(plan)
      plans.set(planId, { ...plan, untilMs: elapsedMs() + keptMs })
      for (const oldest of plans.keys()) {
        if (oldest === planId || (plans.size <= maxPlans && bytes <= maxBytes)) break
        drop(oldest)
      }
      return keptMs
    },
    find(planId) {
      dropExpired()
      return plans.get(planId)
    }
  }
}

function sizeOf(plan: KeptPlan | undefined): number {
  return plan === undefined ? 0 : plan.expected.marks.length + plan.expected.removedMarks.length
}

/** Refuses (`conflict`, plan_outdated) a plan if the files of another deployment are in the target by now. */
export function refuseOtherLive({ liveId }: KeptPlan, nowLiveId: string | null): void {
  if (liveId === nowLiveId) return
  throw planOutdated(
    nowLiveId === null ? 'no deployment is in place' : `deployment ${nowLiveId} was made after the plan`
  )
}
