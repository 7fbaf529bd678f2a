import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { hasCode, Refusal } from '../../base/errors.js'
import { mayBeBundle } from '../bundle/volumes.js'
import { defineCommand, type Family, option, toggle, usage, type Context, exitCodes } from '../command.js'
import { adminDetails, adminOptions, serverFileName, sharedOptions } from '../common-options.js'
import { receiptOption, type Wishes } from '../push-options.js'
import { variables, formFields } from '../pack/push-fields.js'
import { newestBefore } from '../client/runs.js'
import { locateHome } from '../../base/config/home.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { formatBytes, isRefused } from '../../base/shared/api.js'
import { countOf, oneLine } from '../../base/text.js'
import type { UploadPermit } from '../../model/access.js'
import type { PlanAnswer } from '../../model/plan.js'
import { type Client, createClient } from '../client/client.js'
import { localClient, runningOwner } from '../client/local.js'
import { findProject } from '../client/named-project.js'
import { loadConfiguration, openDeploy, type Opened, projectIdOf } from '../client/session.js'
import type { GivenOptions } from '../hints.js'
import { type PackedArchive, placeForArchive } from '../pack/pack.js'
import { requestPlan } from '../pack/push-plan.js'
import { askAgain, checkBeforePacking, uploadArchive } from '../pack/upload-archive.js'
import { exitCodeOf, planLines } from '../plan-view.js'
import { nothingKnown, pageOf } from '../run-result.js'
import { createCiLog } from '../terminal/ci-log.js'
import { confirmation, withInterrupts } from '../terminal/prompt.js'
import { endRun, reportRun, watchRun } from '../watch.js'
import { checkSigning } from '../pack/signing.js'
import { type Bundle, entriesOfRelease, withBundle } from '../bundle/contents.js'
import { type BundleManifest, isLateEnough } from '../bundle/format.js'
import { readAttached } from '../bundle/write.js'

/** The command that applies a file: that of a server, or a bundle. */
export const commands = {
  apply: defineCommand({
    operands: { file: { help: `file of the server, or a bundle; default: ${serverFileName}` } },
    options: {
      'dry-run': toggle('show what would change, and change nothing'),
      prune: toggle(
        'delete or reset what the file does not name, in the parts that it has; of a bundle: as "svc push --prune"'
      ),
      secrets: toggle('also set secrets that cannot be compared, because the server hides them'),
      project: { ...sharedOptions.project, help: 'of a bundle: id or name of the project to deploy to' },
      'set-env': option('NAME=value', 'of a bundle: set a variable for the scripts', { repeatable: true }),
      receipt: { ...receiptOption.receipt, help: 'of a bundle: write the receipt of the deployment to this file' },
      yes: { ...sharedOptions.yes, help: 'do not ask before the changes; required without a terminal' },
      json: toggle('print the changes, or the result of the deployment, as JSON'),
      ...adminOptions
    },
    details:
      'The file has the settings, categories, tags, projects and notification targets of a server. "svc settings\n' +
      'export" writes it; docs/server-file.md describes it. What would change is shown first. A second run changes\n' +
      'nothing. If the server changes while you read, nothing is done.\n\n' +
      'What the file does not name stays as it is, unless --prune is given. A project with deployments is never\n' +
      'deleted. A secret in the file is ${NAME}, a variable of the environment, or ***, which keeps the present one.\n\n' +
      'A bundle of "svc bundle" is deployed as by "svc push", with the token of a push: the plan is shown first. On the\n' +
      'machine of the server, its owner needs no token.\n\n' +
      adminDetails('admin'),
    examples: [
      ['apply --dry-run', `show what ${serverFileName} would change`],
      ['apply svc.server.json --yes', 'make the server as the file says, without being asked'],
      ['apply shop.svcb --project shop', 'show what a bundle would change, and deploy it']
    ],
    async run({ options, operands }, context) {
      const { 'dry-run': isTrial, json, prune, secrets, yes, receipt } = options
      const name = operands.file ?? serverFileName
      const path = resolve(context.cwd, name)
      if (await isBundle(path)) {
        const { env, server, token, project } = options
        if (secrets) throw usage('--secrets', '--secrets is for the file of a server: a bundle contains none')
        const given = { env, server, token, project }
        const setEnv = variables(options['set-env'])
        return await applyBundle(path, { given, setEnv, isTrial, prune, yes, json, receipt }, context)
      }
      for (const flag of ['project', 'set-env', 'receipt'] as const)
        if (options[flag]?.length) throw usage(`--${flag}`, `--${flag} is for a bundle, and "${name}" is none`)
      const { applyServerFile } = await import('./server-file.js').catch(noServerFile)
      return await applyServerFile({ name, server: options, isTrial, prune, secrets, yes, json }, context)
    }
  })
} satisfies Family

/** Whether a file is a bundle, or another zip: the file of a server is text. */
async function isBundle(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const start = Buffer.alloc(32)
    return mayBeBundle(start.subarray(0, (await file.read(start)).bytesRead))
  } finally {
    await file.close()
  }
}

/** The client package does not have that module. */
function noServerFile(error: unknown): never {
  if (!hasCode(error, 'ERR_MODULE_NOT_FOUND')) throw error
  const sentence = 'The client package applies bundles only. Install the full svc package for the file of a server'
  throw new Refusal('unsupported', 'client_only', sentence, { cause: error })
}

/* Applies a bundle: checks it, shows what would change, and uploads its archive as a push does. */

/** What the command line says. */
interface ApplyOptions {
  given: GivenOptions
  setEnv: Readonly<Record<string, string>>
  isTrial: boolean
  prune: boolean
  yes: boolean
  json: boolean
  /** The file for the receipt. */
  receipt: string | undefined
}

interface Applying {
  bundle: Bundle
  opened: Opened
  options: ApplyOptions
  isSure: ((question: string) => Promise<boolean>) | null
  signal: AbortSignal
}

/** Deploys the bundle at `path`. Returns the exit code. */
async function applyBundle(path: string, options: ApplyOptions, context: Context): Promise<number> {
  const { isTrial, yes } = options
  const isSure = isTrial ? null : confirmation(context, { yes, what: 'Applying a bundle', done: 'deployed' })
  return await withBundle(path, async bundle => {
    const opened = await openFor(bundle, options, context)
    const finish = await withInterrupts(context.host, signal =>
      apply({ bundle, opened, options, isSure, signal }, context)
    )
    return await finish()
  })
}

async function apply(
  { bundle, opened, options, isSure, signal }: Applying,
  context: Context
): Promise<() => Promise<number>> {
  const { manifest } = bundle
  const { client, config } = opened
  const { output } = context
  const { given, json } = options
  const projectId = projectIdOf(context, config)
  await checkServer(client, manifest, signal)
  const permit = await askAgain(() => checkBeforePacking({ client, projectId, config, signal }), signal, output.note)
  checkPermit(manifest, permit)
  const attached = await readAttached(bundle)
  const isSigned = attached.statement !== undefined
  checkSigning({ isSigned, hasSbom: attached.sbom !== undefined, cure: 'svc bundle ' }, permit)
  noteVariables(manifest, options, context)
  const place = await placeForArchive()
  try {
    await bundle.extractArchive(place.path, signal)
    const tree = (await bundle.read('tree')) as Buffer
    const entries = await entriesOfRelease(place.path, { manifest, tree, signal })
    const wishes: Wishes = { prune: options.prune ? 'managed' : undefined, force: false }
    const plan = await requestPlan(client, {
      projectId,
      tree: { entries, treeSha256: manifest.tree.sha256, bytes: manifest.tree.bytes },
      wishes,
      all: false,
      scripts: { preDeploy: config.preDeploy?.value, postDeploy: config.postDeploy?.value },
      signal
    })
    const lines = () =>
      planLines(plan, { paint: output.paint, nowMs: Date.now(), all: false, isBegun: isSure !== null })
    if (isSure === null) return async () => (output.result(json, plan, lines), exitCodeOf(plan, false))
    if (!json) for (const line of lines()) output.print(line)
    requireGoodPlan(plan)
    const { name } = plan.project
    if (!(await isSure(`Deploy ${countOf(entries.length, 'file')} to ${oneLine(name)}?`)))
      return async () => exitCodes.failed
    const archive = { ...archiveOf(bundle, place.path), discard: place.discard }
    const newest = await newestBefore(client, null, { projectId, signal })
    const { message, provenance } = manifest
    const known = { ...nothingKnown(), projectId, message, provenance }
    const fields = { planId: plan.planId ?? undefined, ...formFields(config, known, { seconds: null, checkUrl: null }) }
    const upload = { client, projectId, archive, fields, attached, newest, permit, given, signal }
    const run = await uploadArchive(upload, context)
    Object.assign(known, { deployId: run.deployId, url: pageOf(client, run.deployId, run.page) })
    const print = json ? output.note : output.print
    const log = createCiLog(context.env, { print, isRaw: !json && context.host.stdout.isTTY !== true })
    log.open('Deployment output')
    const watching = { client, projectId, given, permit, print: log.line, tellsEnd: !json, signal }
    const watched = await watchRun(run, context, watching).finally(() => log.close())
    const { harmless } = log
    const tell = () =>
      reportRun(watched, context, { client, what: `deployed to ${projectId}`, json, given, known, harmless })
    return () => endRun({ client, watched, receipt: options.receipt, tell }, context)
  } finally {
    await place.discard()
  }
}

/**
 * Opens the API for a deployment. Without an address and a token, through the data directory of the server on this
 * machine, whose owner may read the deploy token.
 */
async function openFor(bundle: Bundle, options: ApplyOptions, context: Context): Promise<Opened> {
  const { server, token, env, project = bundle.manifest.project ?? undefined } = options.given
  const flags = { server, token, project, setEnv: options.setEnv }
  const loaded = (await loadConfiguration(context, { flags, env, project: 'optional' })).config
  const config = await configOf(bundle, loaded)
  const isOpen = config.serverUrl === null && config.deployToken === null
  const owner = isOpen ? await runningOwner(locateHome(context.env, context.cwd)) : null
  if (owner === null) return await openDeploy(context, config)
  const found = await findProject(localClient(owner, context.env), projectIdOf(context, config))
  const from = 'the data directory'
  if (found.token === null) throw new Error('the owner of the data directory cannot read a deploy token')
  const own = { value: found.token, origin: 'http://localhost', from }
  const client = createClient({ serverUrl: 'http://localhost', socketPath: owner, token: own, env: context.env })
  return { client, config: { ...config, projectId: { value: found.id, source: 'flag', from } } }
}

/** Returns the configuration of a push of the bundle: nothing of this directory belongs to its release. */
async function configOf(bundle: Bundle, config: EffectiveConfig): Promise<EffectiveConfig> {
  const [from = ''] = bundle.paths
  const script = async (name: string) => {
    const text = await bundle.read(name)
    return text === null ? null : ({ value: text.toString('utf8'), source: 'flag', from } as const)
  }
  const isAsync = bundle.manifest.postDeployAsync
  return {
    ...config,
    preDeploy: await script('scripts/pre'),
    postDeploy: await script('scripts/post'),
    postDeployAsync: { value: isAsync ?? false, source: isAsync === null ? 'default' : 'flag', from },
    env: Object.fromEntries(Object.entries(config.env).filter(([, { source }]) => source === 'flag'))
  }
}

async function checkServer(client: Client, { minServer }: BundleManifest, signal: AbortSignal): Promise<void> {
  const { version = 'dev' } = await client.call('GET /api/health', { alsoStatus: 503, signal })
  if (isLateEnough(version, minServer)) return
  throw tooOld(`it needs svc ${minServer} or later, and the server is ${version}`)
}

function tooOld(why: string): Refusal {
  const sentence = `Cannot apply the bundle: ${why}. Update the server. Nothing was deployed`
  return new Refusal('unsupported', 'server_too_old', sentence)
}

/** Refuses (`unsupported`) what the server cannot take, and (`too_large`) what it would refuse. */
function checkPermit({ needs, parts, tree }: BundleManifest, permit: UploadPermit | null): void {
  const features: readonly string[] = permit?.features ?? []
  const missing = needs.filter(need => !features.includes(need))
  if (missing.length > 0) throw tooOld(`the server does not know: ${missing.join(', ')}`)
  const bytes = parts.find(({ name }) => name === 'archive.zip')?.bytes ?? 0
  for (const [size, limit, what] of [
    [bytes, permit?.maxUploadBytes, 'archive'],
    [tree.bytes, permit?.maxExtractedBytes, 'release']
  ] as const) {
    if (limit === undefined || size <= limit) continue
    const sentence = `Cannot apply the bundle: its ${what} has ${formatBytes(size)}, and the server accepts ${formatBytes(limit)}`
    throw new Refusal('too_large', 'too_large', sentence)
  }
}

/** Says which variables the scripts expect. The project may have them on the server. */
function noteVariables({ env, parts }: BundleManifest, { setEnv }: ApplyOptions, { output }: Context): void {
  const missing = env.filter(name => !Object.hasOwn(setEnv, name))
  if (missing.length === 0) return
  // What was signed says which variables come with the upload.
  const isSigned = parts.some(({ name }) => name === 'statement.json')
  const where = isSigned ? '--set-env, as they were signed' : '--set-env, or to the project'
  output.note(`The bundle contains no values of variables. Give them with ${where}: ${missing.join(', ')}`)
}

function requireGoodPlan(plan: PlanAnswer): void {
  if (plan.planId !== null && !isRefused(plan)) return
  const sentence = 'Nothing was deployed: the plan says that the deployment would fail'
  throw new Refusal('conflict', 'plan_refused', sentence)
}

function archiveOf({ manifest }: Bundle, path: string): Omit<PackedArchive, 'discard'> {
  const { parts, tree } = manifest
  const part = parts.find(({ name }) => name === 'archive.zip')
  return {
    path,
    files: tree.files,
    sourceBytes: tree.bytes,
    bytes: part?.bytes ?? 0,
    sha256: part?.sha256 ?? '',
    warnings: []
  }
}
