import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { treeMediaType, writeTree } from '../../archive/tree-wire.js'
import type { SourceTree } from '../../archive/tree.js'
import { Refusal } from '../../base/errors.js'
import { planKinds, type PlanAnswer, type PlanPaths, type PruneMode } from '../../model/plan.js'
import { isUnknownRoute } from './answer.js'
import type { Call, Client } from './client.js'
import { readNdjson, streamBroken } from './streams.js'

/** What to ask a plan for. */
export interface PlanQuery {
  projectId: string
  tree: SourceTree
  /** What the deployment asks for instead of the policy of the project. */
  wishes: { prune: Exclude<PruneMode, 'off'> | undefined; force: boolean }
  /** Whether all paths are wanted, not only the first of each kind. */
  all: boolean
  /** The scripts of the upload. Only their digests are sent. */
  scripts: { preDeploy?: string | undefined; postDeploy?: string | undefined }
  signal: AbortSignal
}

/** A comparison takes up to a minute on the server, after it has received the tree. */
const answerLimitMs = 5 * 60_000
const compress = promisify(gzip)

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
  const bytes = await compress([...writeTree(tree.entries, tree.treeSha256)].join(''))
  const digests = [digestOf('pre', scripts.preDeploy), digestOf('post', scripts.postDeploy)].filter(Boolean).join(',')
  return {
    method: 'POST',
    path: '/api/deploy/plan',
    query: {
      projectId,
      ...(wishes.prune !== undefined && { prune: wishes.prune === 'managed' ? '1' : wishes.prune }),
      ...(wishes.force && { force: '1' })
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
