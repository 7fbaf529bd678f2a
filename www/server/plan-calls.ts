import type { PlanAnswer } from '../../lib/model/plan.js'
import { placeOf } from './call.js'
import type { Client } from './client.js'

/** The body of a request for a plan (archive/plan-tree.ts). */
export interface PlanBody {
  body: Blob
  isGzip: boolean
}

/** What to ask for instead of the policy of the project. */
export interface PlanWishes {
  /** Replace edited files although the policy refuses it. */
  force: boolean
  /** Remove files however many they are. */
  pruneAll: boolean
  /** Remove also what svc did not put there. */
  pruneForeign: boolean
}

/** Returns what a deployment of a tree would do. Rejects as `Client.ask` does. */
export function requestPlan(
  { ask }: Pick<Client, 'ask'>,
  projectId: string,
  { body, isGzip, wishes, signal }: PlanBody & { wishes: PlanWishes; signal: AbortSignal }
): Promise<PlanAnswer> {
  const prune = wishes.pruneForeign ? 'foreign' : wishes.pruneAll ? 'force' : undefined
  const query = { projectId, force: wishes.force ? ('1' as const) : undefined, prune } as const
  const headers: Record<string, string> = { 'x-svc-time': String(Date.now()) }
  if (isGzip) headers['content-encoding'] = 'gzip'
  return ask('POST', placeOf('POST /api/deploy/plan', { query }), { body, headers, signal })
}
