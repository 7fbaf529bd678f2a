import { writeFile } from 'node:fs/promises'
import { reasonOf, Refusal } from '../base/errors.js'
import { readText } from '../base/text.js'
import type { PlanAnswer } from '../model/plan.js'
import { usage } from './args.js'

/** A plan that a later push is held to. */
export interface SavedPlan {
  planId: string
  projectId: string
  treeSha256: string
}

/** Writes a plan for `svc push --plan`. Refuses (`conflict`) a plan that is incomplete: plan_incomplete. */
export async function savePlan(path: string, answer: PlanAnswer): Promise<void> {
  const { planId, expiresAt, project, treeSha256, counts, paths } = answer
  if (planId === null) {
    const sentence = 'The plan was not saved: the server could not compare the whole target. See the checks of the plan'
    throw new Refusal('conflict', 'plan_incomplete', sentence)
  }
  const saved = { planId, expiresAt, projectId: project.id, treeSha256, counts, paths }
  try {
    await writeFile(path, `${JSON.stringify(saved, null, 2)}\n`)
  } catch (error) {
    throw usage('--save', `Cannot write "${path}": ${reasonOf(error)}`)
  }
}

/** Reads a plan that `svc plan --save` wrote. Refuses any other file (`usage`). */
export async function loadPlan(path: string): Promise<SavedPlan> {
  const text = await readText(path).catch((error: unknown) => {
    if (error instanceof Refusal) throw error
    throw usage('--plan', `Cannot read "${path}": ${reasonOf(error)}`)
  })
  const { planId, projectId, treeSha256 } = parse(text)
  if (typeof planId === 'string' && typeof projectId === 'string' && typeof treeSha256 === 'string') {
    return { planId, projectId, treeSha256 }
  }
  throw usage('--plan', `"${path}" is not a plan. "svc plan --save ${path}" writes one`)
}

function parse(text: string): Partial<Record<keyof SavedPlan, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
