import { type PlanAnswer, type PlanCounts, planKinds, type PlanPaths } from '../../lib/model/plan.js'

/** A plan in which nothing would change. */
export function aPlan(patch: Partial<PlanAnswer> = {}): PlanAnswer {
  return {
    success: true,
    project: { id: 'proj_1', name: 'Shop', env: 'production' },
    planId: 'plan_1',
    expiresAt: '2026-01-02T03:19:05.000Z',
    partial: false,
    treeSha256: 'ab'.repeat(32),
    baseline: 'none',
    live: null,
    counts: Object.fromEntries(planKinds.map(kind => [kind, 0])) as PlanCounts,
    bytes: { changed: 0, extracted: 0, diskNeeded: 0, diskFree: 1024 ** 3 },
    paths: { ...Object.fromEntries(planKinds.map(kind => [kind, []])), truncated: false } as unknown as PlanPaths,
    checks: [],
    prune: 'off',
    scripts: [],
    queue: { running: null, waiting: 0, ahead: null },
    limits: { maxUploadBytes: 1024, maxExtractedBytes: 2048 },
    ...patch
  }
}
