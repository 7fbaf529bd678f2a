/* The plan of a push: one that was saved before, or one that is made because the push asks for more than the policy. */
import { demandLine } from './signing.js'
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { treeMediaType, writeTree } from '../../core/archive/tree-wire.js'
import type { SourceTree } from '../../core/archive/tree.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import { readText } from '../../base/text.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { type PlanAnswer, planKinds, type PlanPaths } from '../../model/plan.js'
import { isRefused } from '../../base/shared/api.js'
import { isUnknownRoute, readNdjson, streamBroken } from '../client/answer.js'
import type { Call, Client } from '../client/client.js'
import { checkUpload } from '../client/runs.js'
import { type Context, usage } from '../command.js'
import { exitCodeOf, planLines, problemLines } from '../plan-view.js'
import { withInterrupts } from '../terminal/prompt.js'
import { findFiles, readFound } from './pack.js'
import type { PushedTree, PushIndex } from './push-index.js'
import { requirePlacement, type Wishes } from '../push-options.js'
import type { RolloutPolicy } from '../../model/rollout.js'

/** Shows what a push would do. Returns the exit code. */
export async function dryRun(
  {
    json,
    rollout,
    ...planning
  }: Omit<Planning, 'all' | 'signal'> & { json: boolean; rollout: Partial<RolloutPolicy> | undefined },
  context: Context
): Promise<number> {
  const { output } = context
  const { client, projectId } = planning
  const ask = () => checkUpload(client, { projectId, scripts: [] }).catch(() => null)
  const early = rollout === undefined ? null : await ask()
  if (rollout !== undefined) requirePlacement(rollout, early)
  const plan = await withInterrupts(context.host, signal => planProject({ ...planning, all: false, signal }, context))
  output.result(json, plan, () => planLines(plan, { paint: output.paint, nowMs: Date.now(), all: false }))
  // The plan is about files; the line below names who must sign them.
  const demand = (early ?? (await ask()))?.signatures
  const isAsked = demand !== undefined && (demand.require !== 'off' || demand.sbom !== 'off')
  if (isAsked) output.note(`Signatures (${demand.require}): ${demandLine(demand)}`)
  return exitCodeOf(plan, false)
}

/** Refuses (`conflict`, tree_changed) a saved plan of other files, or of another project. */
export async function checkPlan(
  plan: SavedPlan,
  { projectId, ...reading }: Reading & Pick<Planning, 'projectId'>,
  context: Context
): Promise<void> {
  const why =
    plan.projectId !== projectId
      ? `the plan is for project ${plan.projectId}, not for ${projectId}`
      : (await readTreeOfProject(reading, context)).treeSha256 === plan.treeSha256
        ? null
        : 'the files differ from those of the plan'
  if (why !== null) throw new Refusal('conflict', 'tree_changed', `Nothing was deployed: ${why}. Plan again`)
}

/**
 * Plans a push that asks for something, and returns the id of the plan. An older
 * server has no plans, so nothing is uploaded that it would understand otherwise. Refuses (`conflict`, plan_refused) a
 * push that would fail.
 */
export async function planForWishes(planning: Omit<Planning, 'all'>, context: Context): Promise<string> {
  const { prune } = planning.wishes
  const plan = await planProject({ ...planning, all: false }, context)
  if (prune !== undefined && plan.prune !== prune)
    throw new Refusal('unsupported', 'server_too_old', 'This server is too old for --prune. Nothing was deployed')
  if (plan.planId !== null && !isRefused(plan)) return plan.planId
  for (const line of problemLines(plan, context.output.paint)) context.output.note(line)
  throw new Refusal('conflict', 'plan_refused', 'Nothing was deployed: the plan says that the push would fail')
}

/** A plan that a later push is held to. */
interface SavedPlan {
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
  await replaceFile(path, `${JSON.stringify(saved, null, 2)}\n`, 0o666).catch((error: unknown) => {
    throw new Refusal('invalid', 'not_writable', `Cannot write "${path}": ${reasonOf(error)}`, { cause: error })
  })
}

/** Reads a plan that `svc plan --save` wrote. Refuses any other file (`usage`). */
export async function loadPlan(path: string): Promise<SavedPlan> {
  const text = await readText(path).catch((error: unknown) => {
    if (error instanceof Refusal) throw error
    throw usage('--plan', `Cannot read "${path}": ${reasonOf(error)}`)
  })
  const { planId, projectId, treeSha256 } = parse(text)
  if (typeof planId === 'string' && typeof projectId === 'string' && typeof treeSha256 === 'string')
    return { planId, projectId, treeSha256 }
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

/** What to read. */
interface Reading {
  config: EffectiveConfig
  index: PushIndex
  signal: AbortSignal
}

/** Looks up the files of the configuration and reads them. Writes no archive. */
export async function readTreeOfProject({ config, index, signal }: Reading, context: Context): Promise<PushedTree> {
  const found = await findFiles(context, config, signal)
  for (const warning of found.warnings) context.output.warn(warning)
  return await readFound(context, found, { index, what: config.outputDir.value, signal })
}

/** What to plan. */
interface Planning extends Reading {
  client: Client
  projectId: string
  wishes: Wishes
  /** Whether all paths are wanted. */
  all: boolean
}

/** Reads the files, and asks the server what their deployment would do. Refuses what `requestPlan` refuses. */
export async function planProject(planning: Planning, context: Context): Promise<PlanAnswer> {
  const { client, projectId, config, index, wishes, all, signal } = planning
  const tree = await readTreeOfProject(planning, context)
  const scripts = { preDeploy: config.preDeploy?.value, postDeploy: config.postDeploy?.value }
  const answer = requestPlan(client, { projectId, tree, wishes, all, scripts, signal })
  // Meanwhile the server compares.
  const [plan] = await Promise.all([answer, index.refresh(tree)])
  return plan
}

/** What to ask a plan for. */
interface PlanQuery {
  projectId: string
  tree: SourceTree
  /** What the deployment asks for instead of the policy of the project. */
  wishes: Wishes
  /** Whether all paths are wanted, not only the first of each kind. */
  all: boolean
  /** The scripts of the upload. Only their digests are sent. */
  scripts: { preDeploy?: string | undefined; postDeploy?: string | undefined }
  signal: AbortSignal
}

/** A comparison takes up to a minute on the server, after it has received the tree. */
const answerLimitMs = 5 * 60_000
const compress = promisify(gzip)
/** Half the time of the default, for 2 % more bytes. */
const compressionLevel = 4

/** Asks the server what a deployment would do. Refuses (`unsupported`) server_too_old. */
export async function requestPlan(client: Client, query: PlanQuery): Promise<PlanAnswer> {
  const call = await callOf(query)
  try {
    if (!query.all) return await client.json<PlanAnswer>(call)
    return await readStream(await client.open({ ...call, accept: 'application/x-ndjson' }))
  } catch (error) {
    if (!isUnknownRoute(error)) throw error
    const sentence = 'This server is too old for plans and --dry-run. Nothing was uploaded. Update the server'
    throw new Refusal('unsupported', 'server_too_old', sentence, { cause: error })
  }
}

async function callOf({ projectId, tree, wishes, scripts, signal }: PlanQuery): Promise<Call> {
  const bytes = await compress([...writeTree(tree.entries, tree.treeSha256)].join(''), { level: compressionLevel })
  const digests = [digestOf('pre', scripts.preDeploy), digestOf('post', scripts.postDeploy)].filter(Boolean).join(',')
  return {
    method: 'POST',
    path: '/api/deploy/plan',
    query: {
      projectId,
      ...(wishes.prune !== undefined && { prune: wishes.prune === 'managed' ? '1' : wishes.prune }),
      ...(wishes.force && { force: '1' }),
      ...(wishes.override !== undefined && { override: wishes.override }),
      ...(wishes.startAt !== undefined && { startAt: wishes.startAt })
    },
    headers: {
      'content-encoding': 'gzip',
      'x-svc-time': String(Date.now()),
      ...(digests !== '' && { 'x-svc-scripts': digests })
    },
    body: {
      contentType: treeMediaType,
      bytes: bytes.length,
      async *chunks() {
        yield bytes
      }
    },
    answerLimitMs,
    signal
  }
}

function digestOf(name: string, script: string | undefined): string {
  const isGiven = script !== undefined && script.trim() !== ''
  return isGiven ? `${name}=${createHash('sha256').update(script).digest('hex')}` : ''
}

async function readStream(body: AsyncIterable<Buffer>): Promise<PlanAnswer> {
  const lists = Object.fromEntries(planKinds.map(kind => [kind, [] as unknown[]]))
  let plan: Record<string, unknown> | null = null
  for await (const { event, kind, ...entry } of readNdjson(body)) {
    if (event === 'plan') plan = entry
    else if (event === 'end' && plan !== null) {
      return { ...plan, paths: { ...lists, truncated: false } as unknown as PlanPaths } as unknown as PlanAnswer
    } else lists[String(kind)]?.push(Object.keys(entry).length === 1 ? entry['path'] : entry)
  }
  throw streamBroken()
}
