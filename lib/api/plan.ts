import { invalid, Refusal } from '../base/errors.js'
import type { Spool, Spooled } from '../base/budget.js'
import type { PlanRequest } from '../deploy/plan.js'
import { json, type Reply } from '../http/core/route.js'
import { ndjson } from '../http/streams.js'
import { type PlanAnswer, planKinds } from '../model/plan.js'
import type { Project } from '../model/project.js'
import { tighten } from '../model/policy-keys.js'
import { isInScope, type PlannedRollout, uploadFeatures, type UploadPermit } from '../model/access.js'
import type { FleetNode } from '../model/node.js'
import { policyOf } from '../model/policy.js'
import { integer, list, readFields } from '../base/fields.js'
import { maxSummedFiles } from '../core/archive/patch.js'
import { brokenGzip, isGzip, maxTreeBytes, maxTreeEntries, tooLarge, treeMediaType } from '../core/archive/tree-wire.js'
import { refuseFullDisk } from '../deploy/failure.js'
import { formatBytes } from '../base/shared/api.js'
import { type ApiRequest, type Handler, queryText, switchText } from './route.js'
import { checkUploadProject, overrideReason, startTime } from './upload.js'
import type { ApiServices } from './services.js'

const bytesPerMegabyte = 1024 * 1024
/** Number of paths listed of each kind. */
const listedPaths = { fallback: 200, max: 10_000 } as const
/** The header with the SHA-256 of each script that the client would send. */
const scriptsHeader = 'x-svc-scripts'
/** The header with the client's time in milliseconds since 1970. */
const timeHeader = 'x-svc-time'

/**
 * Handler of `POST /api/deploy/plan?projectId=&list=&prune=&force=`: says what a deployment of these files would do. The body is a
 * tree (core/archive/tree-wire.ts).
 */
export function planHandlers({ deployer, findProject, settings, quota, spool }: ApiServices) {
  return {
    async plan(request) {
      const projectId = queryText(request.query, 'projectId')
      if (projectId === undefined) throw invalid('projectId', '"projectId" is missing: name the project to plan for')
      refuseUnknown(projectId, request, findProject)
      const project = checkUploadProject(projectId, request.actor, findProject)
      const isStream = (request.headers.accept ?? '').includes('application/x-ndjson')
      const { role, session, token } = request.actor
      const asked = {
        projectId,
        listed: isStream ? Infinity : readListed(request),
        asks: readAsks(request, project),
        scripts: readScripts(request),
        mayUpload: role === 'project' || role === 'global' || session !== undefined || token !== undefined,
        noSpace: await refusalOf(quota.claim({ bytes: 1, projectId })),
        maxUploadBytes: settings.number('max_upload_size') * bytesPerMegabyte,
        clientTimeMs: readTime(request),
        signal: request.signal
      }
      const tree = await receiveTree(request, spool)
      try {
        const answer = await deployer.plan({ ...asked, tree })
        request.actor.checkAgain?.(true)
        return isStream ? streamed(answer) : json(answer)
      } finally {
        await tree.discard()
      }
    }
  } satisfies Record<string, Handler>
}

/**
 * Returns the refusal of a claim, or null and releases it. The size of the archive is not known before it is packed.
 */
async function refusalOf(claimed: Promise<{ release(): void }>): Promise<Refusal | null> {
  try {
    const claim = await claimed
    claim.release()
    return null
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** Streams the plan without its lists, and then every path, one JSON object per line. */
function streamed({ paths, ...plan }: PlanAnswer): Reply {
  return ndjson(async write => {
    await write({ event: 'plan', ...plan })
    for (const kind of planKinds) {
      for (const entry of paths[kind])
        await write(typeof entry === 'string' ? { kind, path: entry } : { kind, ...entry })
    }
    await write({ event: 'end' })
  })
}

function readListed({ query }: ApiRequest): number {
  const text = queryText(query, 'list')
  if (text === undefined) return listedPaths.fallback
  const listed = Number(text)
  if (/^\d+$/.test(text) && listed <= listedPaths.max) return listed
  throw invalid('list', `"list" is "${text}": expected a number from 0 to ${listedPaths.max}`)
}

/**
 * Reads what the request asks for instead of the policy. Refuses (`forbidden`, deploy_token_may_not) what the policy
 * does not allow to the deploy token of the project, or to a deployer.
 */
function readAsks({ query, actor }: ApiRequest, project: Project): PlanRequest['asks'] {
  const text = queryText(query, 'prune')
  const prune = text === 'force' || text === 'foreign' ? text : pruneOf(switchText(text, 'prune'))
  const force = switchText(queryText(query, 'force'), 'force') ?? false
  const override = readOverride(query)
  tighten(project, { prune, force, override }, actor)
  return { prune, force, override, startAt: readStart(query) }
}

function readOverride(query: URLSearchParams): string | null {
  return overrideReason(queryText(query, 'override') ?? null, 'override') ?? null
}

function readStart(query: URLSearchParams): string | null {
  return startTime(queryText(query, 'startAt') ?? null, 'startAt')
}

function pruneOf(isOn: boolean | undefined): 'managed' | 'off' | undefined {
  return isOn === undefined ? undefined : isOn ? 'managed' : 'off'
}

/** Reads `pre=<sha256>,post=<sha256>`. */
function readScripts({ headers }: ApiRequest): { preDeploy?: string; postDeploy?: string } {
  const text = headers[scriptsHeader]
  const scripts: { preDeploy?: string; postDeploy?: string } = {}
  for (const part of typeof text === 'string' ? text.split(',') : []) {
    const [, step, digest] = /^\s*(pre|post)=([0-9a-f]{64})\s*$/.exec(part) ?? []
    if (digest === undefined) throw invalid(scriptsHeader, 'X-Svc-Scripts must be like "pre=<SHA-256>,post=<SHA-256>"')
    scripts[step === 'pre' ? 'preDeploy' : 'postDeploy'] = digest
  }
  return scripts
}

function readTime({ headers }: ApiRequest): number | null {
  const text = headers[timeHeader]
  return typeof text === 'string' && /^\d{1,16}$/.test(text) ? Number(text) : null
}

/** Fields of `POST /api/deploy/sums`. */
export const sumsFields = {
  /** The files: the numbers of their lines in the tree of the release, from 0. */
  lines: list(integer(0, maxTreeEntries), { min: 1, max: maxSummedFiles })
}

/**
 * Handler of `GET /api/deploy/check?projectId=&scripts=`: checks whether an upload with this token would be accepted,
 * so that a client can find out before it packs and sends files. `scripts` lists the script fields that the upload
 * would contain: `preDeploy`, `postDeploy`. Refuses like the upload, and with 403 `deploy_token_needed` for the admin
 * token. `base` is the tree that the client knows: the answer names that release if it is kept, or the newest one.
 */
export function deployCheckHandlers(needs: ApiServices) {
  const { deployer, deployments, findProject, settings, quota, expiryOf } = needs
  return {
    async check(request) {
      const projectId = queryText(request.query, 'projectId')
      if (projectId === undefined) throw invalid('projectId', '"projectId" is missing: name the project to deploy to')
      refuseAdmin(request)
      refuseUnknown(projectId, request, findProject)
      const project = checkUploadProject(projectId, request.actor, findProject)
      const scripts = (queryText(request.query, 'scripts') ?? '').split(',').filter(Boolean)
      deployer.checkClientScripts(projectId, Object.fromEntries(scripts.map(name => [name, 'true'])))
      const override = readOverride(request.query)
      tighten(project, { override }, request.actor)
      deployer.checkArrival(projectId, { override, startAt: readStart(request.query) })
      const { token } = request.actor
      const claim = await quota.claim({ bytes: 1, projectId })
      claim.release()
      const rolloutAhead = deployer.rolloutAhead(projectId)
      const permit: UploadPermit = {
        success: true,
        project: { id: project.id, name: project.name, env: project.env },
        deploymentsAhead: deployer.countAhead(projectId),
        ...(rolloutAhead !== null && { rolloutAhead }),
        newest: deployments.list({ projectId, limit: 1 })[0]?.id ?? null,
        maxUploadBytes: settings.number('max_upload_size') * bytesPerMegabyte,
        maxExtractedBytes: settings.number('max_extracted_size') * bytesPerMegabyte,
        features: [...uploadFeatures],
        ...(token !== undefined && { token: { name: token.name, expiresAt: expiryOf(token.id) } }),
        rollout: await plannedRollout(project, needs.nodesOf(project.id)),
        signatures: deployer.signatureDemand(projectId),
        base: deployer.baseOf(projectId, queryText(request.query, 'base') ?? null),
        ...(needs.hubs !== undefined && { hubs: needs.hubs() })
      }
      return json(permit)
    },

    /** Handler of `GET /api/deploy/base?projectId=&deployId=`: the tree of a kept release (core/archive/tree-wire.ts). */
    async base(request) {
      const { projectId, deployId } = baseOf(request, findProject)
      const tree = await deployer.baseTree(projectId, deployId)
      const headers = { 'content-type': treeMediaType, 'content-encoding': 'gzip' }
      return { kind: 'bytes', status: 200, body: tree, headers }
    },

    /** Handler of `POST /api/deploy/sums?projectId=&deployId=`: sums of the blocks of files of a kept release (core/archive/patch.ts). */
    async sums(request) {
      const { projectId, deployId } = baseOf(request, findProject)
      const { lines } = readFields(await request.json(), sumsFields)
      const sums = await deployer.baseSums(projectId, deployId, lines)
      request.actor.checkAgain?.(true)
      return { kind: 'bytes', status: 200, body: sums, headers: { 'content-type': 'application/octet-stream' } }
    }
  } satisfies Record<string, Handler>
}

/** Returns the kept release that a request names. Refuses as `checkUploadProject`. */
function baseOf({ query, actor }: ApiRequest, findProject: ApiServices['findProject']) {
  const projectId = queryText(query, 'projectId')
  if (projectId === undefined) throw invalid('projectId', '"projectId" is missing: name the project of the release')
  checkUploadProject(projectId, actor, findProject)
  return { projectId, deployId: queryText(query, 'deployId') ?? '' }
}

/** Returns the rollout that an upload would begin; null: the project is not placed on nodes. */
async function plannedRollout(project: Project, placed: readonly FleetNode[]): Promise<PlannedRollout | null> {
  if (placed.length === 0) return null
  // A server without a fleet loads nothing of it.
  const { planWaves } = await import('../fleet/waves.js')
  const policy = policyOf(project).rollout
  const taking = placed.filter(({ isDrained }) => !isDrained)
  return { nodes: taking.length, waves: planWaves(taking, policy).waves, policy }
}

/**
 * Refuses an unknown project with `no_such_project`. The code differs from `not_found`, which an older server without
 * this route answers.
 */
function refuseUnknown(projectId: string, { actor }: ApiRequest, findProject: ApiServices['findProject']): void {
  if (actor.role === 'project') return
  if (isInScope(actor.projects, projectId) && findProject(projectId) !== undefined) return
  throw new Refusal('not_found', 'no_such_project', `Project not found: "${projectId}"`)
}

/** Refuses the admin token with `deploy_token_needed`: it cannot upload. A session that it opened can. */
function refuseAdmin({ actor }: ApiRequest): void {
  if (actor.session !== undefined) return
  if (actor.token !== undefined || (actor.role !== 'admin' && actor.role !== 'local')) return
  const sentence =
    'An upload needs the deploy token of the project or a named token, not the admin token. "svc projects token" prints it'
  throw new Refusal('forbidden', 'deploy_token_needed', sentence)
}

export type TreeRequest = Pick<ApiRequest, 'headers' | 'body' | 'caller'> & { hold(bytes: number): void }

const gzipMarkBytes = 2

/**
 * Receives the body of a request for a plan as it was sent: a tree, or one that is compressed with gzip, which the thread
 * of the comparison inflates. The caller discards it. Refuses: 415 `unsupported_type`, 413 `tree_too_large`, 400
 * `broken_gzip`, 429 `too_much_at_once`, 503 `server_full`, and the codes of the body.
 */
export async function receiveTree(request: TreeRequest, spool: Pick<Spool, 'receive'>): Promise<Spooled> {
  const { headers, body, caller } = request
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase()
  if (type !== treeMediaType) throw unsupported(`The body must be of the type ${treeMediaType}`)
  const coding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding !== 'identity' && coding !== 'gzip') {
    throw unsupported('The body may be encoded with gzip, and with nothing else')
  }
  const receiving = spool.receive(body as AsyncIterable<Buffer>, {
    caller,
    announcedBytes: Number(headers['content-length'] ?? 0),
    maxBytes: maxTreeBytes,
    tooLarge: () => tooLarge(`it has more than ${formatBytes(maxTreeBytes)}`),
    hold: bytes => request.hold(bytes)
  })
  const tree = await receiving.catch((error: unknown) => {
    throw refuseFullDisk(error)
  })
  if (coding !== 'gzip' || isGzip(await tree.read(gzipMarkBytes))) return tree
  await tree.discard()
  throw brokenGzip()
}

function unsupported(sentence: string): Refusal {
  return new Refusal('unsupported_type', 'unsupported_type', sentence)
}
