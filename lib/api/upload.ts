import type { Caller } from '../auth/bearer.js'
import { Refusal, invalid, notFound } from '../base/refusal.js'
import type { DeployRequest, Deployer, Received, Run } from '../deploy/deployer.js'
import type { Claim, Quota } from '../system/quota.js'
import { maxMessageLength } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import { maxProvenanceBytes, readProvenance, type Provenance } from '../model/provenance.js'
import { line, maxScriptLength, multiline, switchText } from './fields.js'
import type { ApiRequest, Handler } from './route.js'
import { runReply } from './run-reply.js'
import { readUploadForm } from './upload-form.js'

const bytesPerMegabyte = 1024 * 1024
/** What a form may weigh beside its file: boundaries, headers and the other fields. */
const formOverheadBytes = 1024 * 1024
const maxVariables = 1000

export interface UploadNeeds {
  deployer: Pick<Deployer, 'receive' | 'deploy' | 'follow' | 'unrecorded' | 'checkClientScripts'>
  findProject(id: string): Project | undefined
  settings: { number(key: 'max_upload_size'): number }
  quota: Pick<Quota, 'claim'>
  /** Where people see a deployment; null: nobody has said. */
  pageOf(id: string): string | null
}

/** `POST /api/deploy/upload` (§4.6). The file streams to disk as it comes, whatever the order of the fields. */
export function uploadHandlers({ deployer, findProject, settings, quota, pageOf }: UploadNeeds) {
  const upload: Handler = async request => {
    const limitBytes = settings.number('max_upload_size') * bytesPerMegabyte
    checkContentLength(request, limitBytes)
    const claim = await quota.claim({ bytes: contentLength(request), projectId: request.actor.projectId ?? null })
    try {
      const run = await begin(request, { limitBytes, claim })
      return runReply(run, deployer, pageOf(run.deployId))
    } finally {
      claim.release()
    }
  }

  async function begin(request: ApiRequest, { limitBytes, claim }: { limitBytes: number; claim: Claim }): Promise<Run> {
    const { received, fields } = await readUploadForm(request, {
      receive: bytes => deployer.receive(bytes, { limitBytes, onLength: claim.grow, signal: request.signal }),
      // Said before the file where it comes before the file: nobody uploads a gigabyte to be told of a typing error.
      onField(name, value) {
        checkField(name, value, request.actor, findProject)
        if (name === 'projectId') claim.of(value)
      }
    })
    const deploy = await orDiscard(received, () => {
      const deployment = readRequest(fields, request.actor)
      deployer.checkClientScripts(deployment.projectId, deployment)
      return deployment
    })
    return await deployer.deploy(received, deploy)
  }
  return { upload }
}

async function orDiscard<T>(received: Received, work: () => T): Promise<T> {
  try {
    return work()
  } catch (error) {
    await received.discard()
    throw error
  }
}

/** Of the whole form; 0: the client does not say. */
function contentLength({ headers }: ApiRequest): number {
  return Number(headers['content-length'] ?? 0)
}

function checkContentLength(request: ApiRequest, limitBytes: number): void {
  if (contentLength(request) <= limitBytes + formOverheadBytes) return
  const sentence = `The upload was refused: it is larger than max_upload_size (${limitBytes / bytesPerMegabyte} MB)`
  throw new Refusal('too_large', 'too_large', sentence)
}

function checkField(name: string, value: string, caller: Caller, findProject: UploadNeeds['findProject']): void {
  if (name === 'projectId') checkUploadProject(value, caller, findProject)
  else if (isRead(name)) readers[name](value)
}

/** Whose token it is decides what may be seen: another project's says 403 of every other id, known or not. */
export function checkUploadProject(id: string, caller: Caller, findProject: UploadNeeds['findProject']): Project {
  if (caller.role === 'project' && caller.projectId !== id) {
    const sentence = 'This deploy token belongs to another project'
    throw new Refusal('forbidden', 'other_project', sentence, { field: 'projectId' })
  }
  const project = findProject(id)
  if (project === undefined) throw notFound('Project', id)
  return project
}

function readRequest(fields: Map<string, string>, actor: Caller): DeployRequest {
  const projectId = fields.get('projectId')
  if (!projectId) throw invalid('projectId', '"projectId" is missing: the form needs the project to deploy to')
  return {
    projectId,
    preDeploy: fields.get('preDeploy'),
    postDeploy: fields.get('postDeploy'),
    postDeployAsync: readers.postDeployAsync(fields.get('postDeployAsync')),
    env: readers.env(fields.get('env')),
    message: fields.get('message') || null,
    provenance: readers.provenance(fields.get('provenance')),
    actor
  }
}

const script = multiline({ max: maxScriptLength })
const message = line({ max: maxMessageLength })

/** How each field beside `projectId` is read; others are ignored. */
const readers = {
  preDeploy: (value: string) => script(value, 'preDeploy'),
  postDeploy: (value: string) => script(value, 'postDeploy'),
  message: (value: string) => message(value, 'message'),
  postDeployAsync: (value: string | undefined) => switchText(value, 'postDeployAsync'),
  env: readVariables,
  provenance: readClaim
}

/** Own names only: a client may call a field "__proto__" or "constructor". */
function isRead(name: string): name is keyof typeof readers {
  return Object.hasOwn(readers, name)
}

/** `env`: a JSON object of texts, serialised as a string (§4.6). */
function readVariables(value: string | undefined): Record<string, string> {
  if (value === undefined || value.trim() === '') return {}
  const variables = parseJson(value, 'env')
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) {
    throw invalid('env', '"env" cannot be used: a JSON object of texts is needed')
  }
  const entries = Object.entries(variables)
  if (entries.length > maxVariables) {
    throw invalid('env', `"env" has ${entries.length} variables: at most ${maxVariables} are taken`)
  }
  for (const [name, setting] of entries) {
    if (name === '' || /[=\0]/.test(name)) throw invalid('env', `"env" holds "${name}": that is no name of a variable`)
    multiline()(setting, `env.${name}`)
  }
  return Object.fromEntries(entries) as Record<string, string>
}

/** `provenance`: a JSON object of what the client claims (model/provenance.ts); absent or blank: null. */
function readClaim(value: string | undefined): Provenance | null {
  if (value === undefined || value.trim() === '') return null
  const bytes = Buffer.byteLength(value)
  if (bytes > maxProvenanceBytes) {
    throw invalid('provenance', `"provenance" is too long: ${bytes} bytes, at most ${maxProvenanceBytes}`)
  }
  return readProvenance(parseJson(value, 'provenance'), {
    unprintable: 'refuse',
    wrong(field, reason) {
      const name = field === '' ? 'provenance' : `provenance.${field}`
      return invalid(name, `"${name}" ${reason}`)
    }
  })
}

function parseJson(value: string, field: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    throw invalid(field, `"${field}" cannot be read: it is not JSON`)
  }
}
