import { Refusal, invalid } from '../base/errors.js'
import type { Spool } from '../base/spool.js'
import type { Deployer } from '../deploy/deployer.js'
import type { PlanRequest } from '../deploy/plan.js'
import { json, type Reply } from '../http/core/route.js'
import { ndjson } from '../http/streams.js'
import type { Quota } from '../machine/quota.js'
import { planKinds, type PlanAnswer } from '../model/plan.js'
import type { Project } from '../model/project.js'
import { tighten } from '../model/tighten.js'
import { refuseUnknown } from './deploy-check.js'
import { queryText, switchText } from './query.js'
import type { ApiRequest, Handler } from './route.js'
import { receiveTree } from './tree-body.js'
import { checkUploadProject } from './upload.js'

const bytesPerMegabyte = 1024 * 1024
/** Number of paths listed of each kind. */
export const listedPaths = { fallback: 200, max: 10_000 } as const
/** The header with the SHA-256 of each script that the client would send. */
export const scriptsHeader = 'x-svc-scripts'
/** The header with the client's time in milliseconds since 1970. */
export const timeHeader = 'x-svc-time'

/** Dependencies of the plan. */
export interface PlanApiNeeds {
  deployer: Pick<Deployer, 'plan'>
  findProject(id: string): Project | undefined
  settings: { number(key: 'max_upload_size'): number }
  quota: Pick<Quota, 'claim'>
  /** Keeps the bodies of requests. */
  spool: Spool
}

/**
 * Handler of `POST /api/deploy/plan?projectId=&list=&prune=&force=`: says what a deployment of these files would do. The body is a
 * tree (archive/tree-wire.ts).
 */
export function planHandlers({ deployer, findProject, settings, quota, spool }: PlanApiNeeds) {
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
  tighten(project, { prune, force }, actor)
  return { prune, force }
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
