import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { type Caller, ownerOf } from '../access/bearer.js'
import { invalid, notFound, Refusal } from '../base/errors.js'
import { oneLine } from '../base/text.js'
import { JsonFault, strictJson } from '../base/json.js'
import type { Run } from '../deploy/admission.js'
import type { DeployRequest } from '../deploy/requests.js'
import type { Deployer } from '../deploy/deployer.js'
import type { Received } from '../deploy/intake.js'
import type { Taken } from '../deploy/pieces.js'
import { maxTreeBytes } from '../core/archive/tree-wire.js'
import type { Claim } from '../operate/machine/storage.js'
import { clientVariableNameFault, maxClientVariables } from '../model/variable.js'
import { readSbom } from '../model/sbom.js'
import { maxSbomBytes, maxSignatureBytes, maxSignatures, maxStatementBytes } from '../model/statement.js'
import type { SentSignatures } from '../core/proof/signers.js'
import { maxMessageLength } from '../model/deployment.js'
import { runsCommand } from '../base/shared/api.js'
import { confirmSecondsFault } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { maxProvenanceBytes, type Provenance, provenanceReader } from '../model/provenance.js'
import { tighten } from '../model/policy-keys.js'
import { givenRolloutPolicy } from '../model/rollout-policy.js'
import type { RolloutPolicy } from '../model/rollout.js'
import {
  checked,
  instant,
  line,
  mapped,
  maxScriptLength,
  multiline,
  nullable,
  refuseDroppedWish,
  sha256Text
} from '../base/fields.js'
import { parseMultipart } from '../http/form/multipart.js'
import { perObject } from '../base/async.js'
import { isFinal } from '../deploy/record.js'
import { linesOf, type StoredBlock } from '../deploy/output/stored-output.js'
import { encodeLines, ndjson } from '../http/streams.js'
import type { Reply } from '../http/core/route.js'
import {
  type ApiRequest,
  bodyAsSent,
  checkProject,
  type Handler,
  otherProject,
  switchText,
  traceIdOf
} from './route.js'
import type { ApiServices } from './services.js'

const bytesPerMegabyte = 1024 * 1024
/** Maximum size of a form without its file: boundaries, headers and the other fields. */
const formOverheadBytes = 1024 * 1024
/** Maximum length of the id of a plan. */
const maxPlanIdLength = 100

/** Handler of `POST /api/deploy/upload` (§4.6). The file is streamed to disk, whatever the order of the fields. */
export function uploadHandlers({ deployer, findProject, pieces, settings, quota, pageOf, proof }: ApiServices) {
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
    const traceId = traceIdOf(request)
    const { received, tree, sbom, fields, signatures } = await readUploadForm(request, {
      isElsewhere: fields => fields.has('uploadId'),
      // An expired token finishes an upload that it began before, and nothing else.
      receive: async bytes =>
        checkNotLate(request.actor) ??
        (await deployer.receive(bytes, { limitBytes, onLength: claim.grow, signal: request.signal })),
      receiveTree: bytes => deployer.receive(bytes, { limitBytes: maxTreeBytes, signal: request.signal }),
      receiveSbom: bytes => deployer.receive(bytes, { limitBytes: maxSbomBytes, signal: request.signal }),
      // A field before the file is checked at once, so that a typing error is reported before the whole file is sent.
      onField(name, value) {
        checkField(name, value, { caller: request.actor, findProject })
        if (name !== 'projectId') return
        claim.of(value)
        deployer.checkArrival(value)
      }
    })
    const discard = () => Promise.all([received, tree, sbom].map(each => each?.discard()))
    // A file that is none would satisfy a policy, and nobody would find a component in it.
    if (sbom !== undefined) await orDiscard(discard, async () => void readSbom(await readFile(sbom.path)))
    const deploy = await orDiscard(discard, () => {
      const sent = readSent(fields.get('statement'), signatures)
      const deployment = { ...readRequest(fields, request.actor), traceId, sent, sbom }
      const { projectId, planId } = deployment
      deployer.checkClientScripts(projectId, deployment)
      const project = checkUploadProject(projectId, request.actor, findProject)
      const planned = planId === undefined ? {} : deployer.plannedWishes(planId, projectId)
      // A session that was left open runs nothing: neither its own script nor one that runs what it uploads.
      if (runsCommand(project, deployment)) proof.check(request.actor.provenAt)
      // A plan of an operator does not lend its rights to a pipeline.
      tighten(project, { ...deployment, ...planned }, request.actor)
      return deployment
    })
    const changes = await orDiscard(discard, () => readChanges(fields, tree))
    const { projectId } = deploy
    const uploadId = fields.get('uploadId') ?? ''
    const taken = received === undefined ? await takePieces(uploadId, { projectId, request, discard }) : null
    const contents = received ?? (taken as Taken).received
    const sent = { projectId, contents, limitBytes, onLength: claim.grow }
    const archive =
      changes === null
        ? contents
        : await orDiscard(
            async () => sbom?.discard(),
            () => deployer.assemble({ ...sent, ...changes })
          )
    const run = await deployer.deploy(archive, deploy)
    // If it cannot be removed now, it expires.
    await taken?.finish().catch(() => {})
    return run
  }

  /** Takes an upload that came in pieces. It is removed once its deployment is recorded. */
  async function takePieces(
    uploadId: string,
    { projectId, request, discard }: { projectId: string; request: ApiRequest; discard(): Promise<unknown> }
  ): Promise<Taken> {
    try {
      return await pieces.take(uploadId, projectId, ownerOf(request.actor))
    } catch (error) {
      await discard()
      throw error
    }
  }
  return { upload }
}

/** Runs `work`, and deletes the received files if it throws. */
async function orDiscard<T>(discard: () => Promise<unknown>, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await discard()
    throw error
  }
}

/** Reads the statement and its signatures. Returns null if there are none. */
function readSent(statement: string | undefined, signatures: string[]): SentSignatures | null {
  if (statement !== undefined) return { statement, signatures }
  if (signatures.length === 0) return null
  throw invalid('statement', '"statement" is missing: a signature is one of a statement')
}

/** Reads the fields of an upload of changes: `base`, `treeSha256` and the part `tree`, all of them or none, and `patches`. */
function readChanges(
  fields: Map<string, string>,
  delta: Received | undefined
): { base: string; treeSha256: string; delta: Received; patches: string | undefined } | null {
  const base = fields.get('base') || undefined
  const treeSha256 = fields.get('treeSha256') || undefined
  const patches = fields.get('patches') || undefined
  if (base !== undefined && treeSha256 !== undefined && delta !== undefined) return { base, treeSha256, delta, patches }
  if (base === undefined && treeSha256 === undefined && delta === undefined && patches === undefined) return null
  const missing = base === undefined ? 'base' : treeSha256 === undefined ? 'treeSha256' : 'tree'
  throw invalid(missing, `"${missing}" is missing: an upload of changes has "base", "treeSha256" and the part "tree"`)
}

/** Returns the size of the whole form in bytes, or 0 if the client did not send it. */
function contentLength({ headers }: ApiRequest): number {
  return Number(headers['content-length'] ?? 0)
}

function checkContentLength(request: ApiRequest, limitBytes: number): void {
  if (contentLength(request) <= limitBytes + formOverheadBytes) return
  const sentence = `The upload is too large: the setting max_upload_size allows ${limitBytes / bytesPerMegabyte} MB`
  throw new Refusal('too_large', 'too_large', sentence)
}

type Finder = Pick<ApiServices, 'findProject'> & { caller: Caller }

function checkField(name: string, value: string, { caller, findProject }: Finder): void {
  if (name === 'projectId') checkUploadProject(value, caller, findProject)
  else if (isRead(name)) readers[name](value)
  else refuseDroppedWish(name, readers)
}

/**
 * Returns the project of an upload. Refuses: 404 for an unknown project and for one that the caller may not see, 403
 * `other_project`. The token of a project gets 403 for every other id, so that it cannot find out which ids exist.
 */
export function checkUploadProject(id: string, caller: Caller, findProject: ApiServices['findProject']): Project {
  if (caller.role === 'project' && caller.projectId !== id) throw otherProject('projectId')
  checkProject(caller, id, () => notFound('Project', id))
  const project = findProject(id)
  if (project === undefined) throw notFound('Project', id)
  return project
}

/** Refuses (401 `token_expired`) an expired token. */
export function checkNotLate({ isLate, token }: Caller): undefined {
  if (!isLate) return
  const sentence = `The token "${token?.name}" has expired: it can only finish the uploads that it began before`
  throw new Refusal('unauthorized', 'token_expired', sentence)
}

function readRequest(fields: Map<string, string>, actor: Caller): DeployRequest {
  const projectId = fields.get('projectId')
  if (!projectId) throw invalid('projectId', '"projectId" is missing: name the project to deploy to')
  return {
    projectId,
    preDeploy: fields.get('preDeploy'),
    postDeploy: fields.get('postDeploy'),
    postDeployAsync: readers.postDeployAsync(fields.get('postDeployAsync')),
    env: readers.env(fields.get('env')),
    message: fields.get('message') || null,
    provenance: readers.provenance(fields.get('provenance')),
    planId: fields.get('planId') || undefined,
    confirmSeconds: readers.confirmSeconds(fields.get('confirmSeconds')),
    rollout: readers.rollout(fields.get('rollout')),
    override: readers.override(fields.get('override') ?? null),
    startAt: readers.startAt(fields.get('startAt') ?? null),
    actor
  }
}

const script = multiline({ max: maxScriptLength })
const message = line({ max: maxMessageLength })
const planId = line({ max: maxPlanIdLength })
const deploymentId = line({ max: maxPlanIdLength })
const entryName = line({ max: 100 })
/** Reads why a deployment begins outside of the windows of its project. */
export const overrideReason = nullable(line({ min: 1, max: maxMessageLength, trim: true }))

const zoned = checked(instant, given =>
  /(Z|[+-]\d\d:?\d\d)$/i.test(given) ? null : 'expected a time with its zone, such as 2026-12-20T02:00:00Z'
)
/** Reads when a deployment begins. */
export const startTime = nullable(mapped(zoned, given => new Date(given).toISOString()))

/** Readers of the fields other than `projectId`. Unknown fields are ignored. */
const readers = {
  preDeploy: (value: string) => script(value, 'preDeploy'),
  postDeploy: (value: string) => script(value, 'postDeploy'),
  message: (value: string) => message(value, 'message'),
  postDeployAsync: (value: string | undefined) => switchText(value, 'postDeployAsync'),
  env: readVariables,
  provenance: readClaim,
  planId: (value: string) => planId(value, 'planId'),
  confirmSeconds: readConfirmSeconds,
  rollout: readRollout,
  override: (value: string | null) => overrideReason(value, 'override'),
  base: (value: string) => deploymentId(value, 'base'),
  treeSha256: (value: string) => sha256Text(value, 'treeSha256'),
  patches: (value: string) => entryName(value, 'patches'),
  uploadId: (value: string) => deploymentId(value, 'uploadId'),
  startAt: (value: string | null) => startTime(value, 'startAt'),
  statement: (value: string) => ofSize(value, 'statement', maxStatementBytes),
  signature: (value: string) => ofSize(value, 'signature', maxSignatureBytes)
}

function ofSize(value: string, field: string, maxBytes: number): void {
  const bytes = Buffer.byteLength(value)
  if (bytes > maxBytes) throw invalid(field, `"${field}" is too long: ${bytes} bytes, at most ${maxBytes}`)
}

/** Looks at own properties only: a client may name a field "__proto__" or "constructor". */
function isRead(name: string): name is keyof typeof readers {
  return Object.hasOwn(readers, name)
}

/** Reads `env`: a JSON object of strings, as a text (§4.6). */
function readVariables(value: string | undefined): Record<string, string> {
  if (value === undefined || value.trim() === '') return {}
  const variables = parseJson(value, 'env')
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) {
    throw invalid('env', '"env" is invalid: expected a JSON object of strings')
  }
  const entries = Object.entries(variables)
  if (entries.length > maxClientVariables) {
    throw invalid('env', `"env" has ${entries.length} variables: at most ${maxClientVariables} are allowed`)
  }
  for (const [name, setting] of entries) {
    if (clientVariableNameFault(name) !== null)
      throw invalid('env', `"env" contains "${name}": not a valid variable name`)
    multiline()(setting, `env.${name}`)
  }
  return Object.fromEntries(entries) as Record<string, string>
}

const readProvenance = provenanceReader('refuse')

/** Reads `provenance`: a JSON object of the client's claims (model/provenance.ts). Returns null if absent or blank. */
function readClaim(value: string | undefined): Provenance | null {
  if (value === undefined || value.trim() === '') return null
  const bytes = Buffer.byteLength(value)
  if (bytes > maxProvenanceBytes) {
    throw invalid('provenance', `"provenance" is too long: ${bytes} bytes, at most ${maxProvenanceBytes}`)
  }
  return readProvenance(parseJson(value, 'provenance'), 'provenance')
}

/** Reads `confirmSeconds`. Returns null if it is absent or blank. */
function readConfirmSeconds(value: string | undefined): number | null {
  if (value === undefined || value.trim() === '') return null
  const seconds = /^\d{1,10}$/.test(value.trim()) ? Number(value) : NaN
  const fault = confirmSecondsFault(seconds)
  if (fault !== null) throw invalid('confirmSeconds', `"confirmSeconds" is invalid: ${fault}`)
  return seconds
}

/** Reads `rollout`: a JSON object with keys of the policy of rollouts. Returns undefined if it is absent or blank. */
function readRollout(value: string | undefined): Partial<RolloutPolicy> | undefined {
  if (value === undefined || value.trim() === '') return undefined
  return givenRolloutPolicy(parseJson(value, 'rollout'), 'rollout')
}

function parseJson(value: string, field: string): unknown {
  try {
    return strictJson(value)
  } catch (fault) {
    if (!(fault instanceof JsonFault)) throw fault
    throw invalid(field, `"${field}" cannot be read: ${fault.message}`)
  }
}

/** What an upload holds while it arrives: a block from the socket, and one on its way to the disk. */
const uploadBytes = 512 * 1024

/** A completely read upload form: the file on disk, and the other fields as text. */
export interface UploadForm<File = Received> {
  received: File
  /** The differences to an earlier release (core/archive/tree-wire.ts), if the file contains only what has changed. */
  tree: Received | undefined
  /** The list of components. */
  sbom: Received | undefined
  fields: Map<string, string>
  /** The values of `signature`, the only field that may come several times. */
  signatures: string[]
}

interface Handlers {
  /** Stores the bytes of the file while they arrive. */
  receive(bytes: Readable): Promise<Received>
  /** Stores the part `tree`. Absent: the form must not have one. */
  receiveTree?(bytes: Readable): Promise<Received>
  /** Stores the part `sbom`. Absent: the form must not have one. */
  receiveSbom?(bytes: Readable): Promise<Received>
  /** Called for each field when it arrives. If it throws, reading stops with that error. */
  onField(name: string, value: string): void
}

/** For a form without a file, if its fields say where else it is. */
interface HandlersOfAny extends Handlers {
  isElsewhere(fields: ReadonlyMap<string, string>): boolean
}

/**
 * Reads an upload form. Its parts may come in any order. After an error, the received file is deleted. Refuses: the
 * codes of `parseMultipart` (415, 400, 413), 400 `invalid_field` for a repeated part or a wrong file part, 400
 * `no_file`, and what `Request.hold` refuses.
 */
export async function readUploadForm(
  request: ApiRequest,
  handlers: HandlersOfAny
): Promise<UploadForm<Received | undefined>>
export async function readUploadForm(request: ApiRequest, handlers: Handlers): Promise<UploadForm>
export async function readUploadForm(
  request: ApiRequest,
  handlers: Handlers & Partial<HandlersOfAny>
): Promise<UploadForm<Received | undefined>> {
  const fields = new Map<string, string>()
  const signatures: string[] = []
  const files: Partial<Record<FileName, Received>> = {}
  request.hold(uploadBytes)
  try {
    await parseMultipart(bodyAsSent(request), request.headers['content-type'], {
      signal: request.signal,
      hold: bytes => request.hold(bytes),
      field(name, value) {
        if (isFile(name)) throw invalid(name, `"${name}" is a text field: send it as a file part`)
        if (fields.has(name)) throw invalid(name, `"${name}" is given twice`)
        handlers.onField(name, value)
        if (name !== 'signature') fields.set(name, value)
        else if (signatures.push(value) > maxSignatures)
          throw invalid(name, `"signature" is given more than ${maxSignatures} times`)
      },
      async file({ name, stream }) {
        const { receive: receiveFile, receiveTree, receiveSbom } = handlers
        const receive = { file: receiveFile, tree: receiveTree, sbom: receiveSbom }[name as FileName]
        if (!isFile(name) || receive === undefined)
          throw invalid(name, `"${name}" is a file: only the part "file" may be one`)
        if (files[name] !== undefined) throw invalid(name, `"${name}" is given twice: send one file per request`)
        files[name] = await receive(stream)
      }
    })
    const { file: received, tree, sbom } = files
    const isElsewhere = handlers.isElsewhere?.(fields) ?? false
    if (received === undefined && !isElsewhere) throw noFile()
    if (received !== undefined && isElsewhere)
      throw invalid('uploadId', 'The form has the part "file" and "uploadId": the file is in one of them')
    return { received, tree, sbom, fields, signatures }
  } catch (error) {
    await Promise.all(Object.values(files).map(each => each.discard()))
    throw error
  }
}

const fileNames = ['file', 'tree', 'sbom'] as const
type FileName = (typeof fileNames)[number]
const isFile = (name: string): name is FileName => fileNames.some(each => each === name)

function noFile(): Refusal {
  return new Refusal('invalid', 'no_file', 'No file was uploaded: the form has no part "file"', { field: 'file' })
}

/**
 * Streams the output of a deployment, one JSON object per line (§6.2). The deployment is already recorded, so the
 * headers with its id are sent at once. A client that disconnects does not stop the deployment; with the id it can ask
 * for the rest. An event `confirm` says that the deployment waits to be confirmed. `page` is the URL of the
 * deployment's page, or null if the server does not know it.
 */
export function runReply(
  run: Pick<Run, 'deployId' | 'finished'>,
  deployer: Pick<Deployer, 'follow' | 'unrecorded' | 'confirmUntil'>,
  page: string | null
): Reply {
  const headers = { 'x-svc-deploy-id': run.deployId, ...(page !== null && { 'x-svc-deploy-url': page }) }
  return ndjson(
    async (write, signal) => {
      try {
        let told: string | null = null
        for await (const block of deployer.follow(run.deployId, { signal })) {
          await write(logLinesOf(block))
          const until = deployer.confirmUntil(run.deployId)
          if (until !== null && until !== told) await write({ event: 'confirm', deployId: run.deployId, until })
          told = until
        }
      } catch (error) {
        signal.throwIfAborted()
        // The deployment continues, and the client still needs its result.
        await write({ event: 'log', data: oneLine(`✗ Cannot read the output: ${(error as Error).message}`) })
      }
      const { status, duration, id } = await run.finished
      // The server stops, and the next start continues the deployment: the client connects again.
      if (!isFinal(status)) return
      const unrecorded = deployer.unrecorded(id)
      if (unrecorded !== null) await write({ event: 'log', data: `→ ${unrecorded}` })
      await write({ event: 'status', status, duration, deployId: id })
    },
    { headers, isBegun: true }
  )
}

const logLinesOf = perObject((block: StoredBlock) =>
  encodeLines(Array.from(linesOf(block), ({ line }) => ({ event: 'log', data: line.text })))
)
