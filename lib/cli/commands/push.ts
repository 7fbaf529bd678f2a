import { resolve } from 'node:path'
import { systemClock } from '../../base/clock.js'
import { locateHome } from '../../base/config/home.js'
import { readVersion } from '../../base/config/version.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { treeOf } from '../../core/archive/tree.js'
import type { Provenance } from '../../model/provenance.js'
import type { RolloutPolicy } from '../../model/rollout.js'
import type { UploadPermit } from '../../model/access.js'
import { sendReport } from '../../operate/telemetry.js'
import type { Client } from '../client/client.js'
import { newestBefore, type Run } from '../client/runs.js'
import { openDeploy, projectIdOf } from '../client/session.js'
import { type Context, defineCommand, type Family, option, toggle } from '../command.js'
import { checkMessage, durationOption, packOptions, scriptOptions, sharedOptions } from '../common-options.js'
import type { GivenOptions } from '../hints.js'
import {
  chooseSending,
  incrementalMode,
  incrementalModes,
  type IncrementalMode,
  isRefusedChange,
  type Sending,
  sendingNote
} from '../pack/changes.js'
import { findFiles, listIgnored, packConfiguration, packProject, readFound } from '../pack/pack.js'
import { collectProvenance } from '../pack/provenance.js'
import { indexPath, openIndex, type PushIndex, writeIndex } from '../pack/push-index.js'
import { formFields, variables } from '../pack/push-fields.js'
import { attach, checkSigning, openSigning, type Signing, signOptions } from '../pack/signing.js'
import type { Attached } from '../../model/statement.js'
import { askAgain, checkBeforePacking, tokenEndLine, uploadArchive, waitUntilFree } from '../pack/upload-archive.js'
import {
  atOption,
  checkFromHere,
  confirmOptions,
  type ConfirmRequest,
  noteStart,
  readAt,
  readConfirmOptions,
  readRolloutOptions,
  receiptOption,
  refuseLate,
  refuseWithPlan,
  requireConfirmFeature,
  requirePlacement,
  requireStartFeature,
  rolloutOptions,
  type Waiting,
  type Wishes,
  wishesOf,
  wishOptions,
  witnessOption,
  waitOption
} from '../push-options.js'
import { appendSummary, failedResult, type Known, nothingKnown, pageOf } from '../run-result.js'
import { withInterrupts } from '../terminal/prompt.js'

/* What most pushes do not need, or not before the archive is sent: then the server works, and this machine waits. */
const plans = () => import('../pack/push-plan.js')
const watching = () => import('../watch.js')
const logging = () => import('../terminal/ci-log.js')

/** The command that packs, uploads and deploys a build. */
export const commands = {
  push: defineCommand({
    fields: {
      confirmSeconds: { duration: '--confirm' },
      startAt: '--at',
      preDeploy: '--pre',
      postDeploy: '--post',
      postDeployAsync: '--post-deploy-async',
      env: '--set-env'
    },
    options: {
      env: sharedOptions.env,
      ...packOptions,
      server: sharedOptions.server,
      project: { ...sharedOptions.project, help: 'id or name of the project to deploy to' },
      token: option('token', 'deploy token, or a named one; "-" reads it from standard input'),
      message: {
        ...sharedOptions.message,
        help: 'message for this deployment; default: the subject of the current git commit'
      },
      ...scriptOptions,
      'post-deploy-async': option(
        'true|false',
        'whether to run the --post script in the background; without a value: true',
        { choices: ['true', 'false', '1', '0'], bare: 'true' }
      ),
      'set-env': option('NAME=value', 'set a variable for the scripts', { repeatable: true }),
      ...confirmOptions,
      ...atOption,
      ...rolloutOptions,
      provenance: toggle('do not send git commit, branch and CI run', { default: true }),
      ...waitOption,
      ...wishOptions,
      ...signOptions,
      incremental: option(
        'mode',
        'send only what has changed since a release that the server keeps; default: auto, if it pays',
        { choices: incrementalModes }
      ),
      'dry-run': toggle('only show what the push would do, like "svc plan"'),
      plan: option('file', 'fail unless the push does what this plan of "svc plan --save" shows'),
      ...witnessOption,
      ...receiptOption,
      json: toggle('print the result as JSON; the deployment output goes to standard error')
    },
    details:
      'The token is the deploy token of the project, or a named one with the role deployer or higher. It comes from\n' +
      '--token, SVC_DEPLOY_TOKEN (also in .env.local) or the global configuration.\n' +
      'Scripts that are configured on the server override the ones given here.\n\n' +
      'Ctrl-C during the upload cancels it. After the server has answered, Ctrl-C only stops watching: the deployment\n' +
      'continues. An archive above 32 MB is sent in pieces, and so is one whose upload broke: the server keeps what has\n' +
      'arrived for 24 hours, and the next push of the same files with the same token continues there.\n\n' +
      'If the project does not allow client scripts, its scripts receive only those variables of --set-env and of\n' +
      'the configuration that the project lists in allowedEnv. The output names the variables that were dropped.\n\n' +
      'With --confirm, the server puts the earlier files back unless somebody runs "svc confirm" in time. Add\n' +
      '--check-from-here to confirm automatically when the site can be reached from this machine.\n\n' +
      'With --at, the server keeps the archive and begins at that time. The command ends at once; "svc cancel" cancels\n' +
      'the deployment. If the project asks for an approval, the push prints that and follows until it is decided.\n\n' +
      'A project that is placed on nodes ("svc fleet place") goes to them in waves. --canary, --then, --pause,\n' +
      '--max-failures, --max-unreachable and --on-failure change its policy for this push; a deploy token or\n' +
      'a deployer makes the policy that the project sets only stricter. The exit code is 1 if the rollout is halted or reverted. Ctrl-C only\n' +
      'stops watching; "svc rollout halt" stops the rollout.',
    examples: [
      ['push', 'deploy the build that svc.config.json describes'],
      ['push --env production -m "New prices"', 'deploy one of several environments, with a message'],
      [
        'push --out dist --post "systemctl --user restart shop" --set-env NODE_ENV=production',
        'deploy another directory, and run a script with a variable'
      ],
      [
        'push --confirm 90s --check-from-here https://shop.example.org/',
        'go back unless the site answers this machine within 90 seconds'
      ],
      ['push --at 02:00', 'begin tonight'],
      ['push --canary 2 --then 25% --pause 60s', 'deploy to two nodes first, then to a quarter of all each minute']
    ],
    async run({ options }, context) {
      const { json, message } = options
      const known = { ...nothingKnown(), message: message ?? null }
      return await reportingFailure(context, { known, json }, async () => {
        const postDeployAsync = options['post-deploy-async']
        checkMessage(message)
        const waitMs = options.wait === undefined ? null : durationOption('--wait', options.wait)
        const confirm = readConfirmOptions(options.confirm, options['check-from-here'])
        const startAt = readAt(options.at, Date.now())
        refuseLate(options)
        refuseWithPlan(options)
        const rollout = await readRolloutOptions(options)
        const given = await packConfiguration(context, options, {
          ...(postDeployAsync !== undefined && {
            postDeployAsync: postDeployAsync === 'true' || postDeployAsync === '1'
          }),
          setEnv: variables(options['set-env'])
        })
        known.projectId = projectIdOf(context, given)
        await listIgnored(context, given, options)
        const { client, config } = await openDeploy(context, given)
        const projectId = (known.projectId = projectIdOf(context, config))
        const wishes = wishesOf({ ...options, startAt })
        const index = await openIndex(context, { client, projectId, isUsed: options.index })
        const signing = await openSigning(context, options, config.outputDir.value)
        if (options['dry-run']) {
          const { dryRun } = await plans()
          noteStart(context, startAt)
          return () => dryRun({ client, projectId, config, wishes, index, rollout, json }, context)
        }
        const plan =
          options.plan === undefined ? null : await (await plans()).loadPlan(resolve(context.cwd, options.plan))
        const origin = options.provenance ? collectProvenance(context.cwd, context.env) : Promise.resolve(null)
        const print = json ? context.output.note : context.output.print
        const again = { env: options.env, server: options.server, project: options.project, token: options.token }
        const report = reportPush(context)
        const ended = await withInterrupts(context.host, async signal => {
          if (plan !== null) await (await plans()).checkPlan(plan, { projectId, config, index, signal }, context)
          const asked = { wishes, planId: plan?.planId }
          const upload = {
            client,
            projectId,
            config,
            confirm,
            startAt,
            rollout,
            signing,
            given: again,
            origin,
            known,
            waitMs,
            index,
            incremental: incrementalMode(options.incremental),
            ...asked,
            signal
          }
          const { run, permit, sending } = await packAndUpload(upload, context)
          const indexed = keepIndex(upload, sending, context)
          const [{ isReceived, watchRun }, { createCiLog }] = await Promise.all([watching(), logging()])
          if (startAt !== undefined) {
            await isReceived(run)
            return null
          }
          const log = createCiLog(context.env, { print, isRaw: !json && context.host.stdout.isTTY !== true })
          log.open('Deployment output')
          const { note } = context.output
          const onConfirm = (waiting: Waiting): void => {
            const confirmIt = () => client.call('POST /api/deployments/:id/confirm', { id: waiting.deployId })
            const { checkUrl: url } = confirm
            if (url !== null) void checkFromHere(waiting, { confirm: confirmIt, url, note, signal })
          }
          const how = { client, projectId, given: again, permit, print: log.line, tellsEnd: !json, onConfirm, signal }
          const watched = await watchRun(run, context, how).finally(() => Promise.all([log.close(), indexed]))
          return { watched, harmless: log.harmless }
        }).finally(() => report.abort())
        const { endRun, reportRun, reportScheduled } = await watching()
        const { receipt, witness } = options
        if (ended === null) return () => reportScheduled({ client, known, json, witness }, context)
        const { watched, harmless } = ended
        const tell = () =>
          reportRun(watched, context, { client, what: `deployed to ${projectId}`, json, given: again, known, harmless })
        return () => endRun({ client, watched, receipt, witness, tell }, context)
      })
    }
  })
} satisfies Family

/**
 * Runs `push` and then the function that it returns. If `push` fails, it reports the failure as JSON and in the summary
 * of a CI job, with the facts known so far, and throws the error again.
 */
async function reportingFailure(
  context: Context,
  { known, json }: { known: Known; json: boolean },
  push: () => Promise<() => Promise<number>>
): Promise<number> {
  const report = await push().catch(async (error: unknown) => {
    const result = failedResult(error, known)
    if (json) context.output.json(result)
    await appendSummary(result, context)
    throw error
  })
  return await report()
}

/** Sends the usage report (§6.6) during the push. The caller aborts it when the push has finished. */
function reportPush({ env, cwd }: Context): AbortController {
  const report = new AbortController()
  const home = locateHome(env, cwd)
  const { signal } = report
  void sendReport({
    event: 'svc.push.start',
    home,
    environment: env,
    version: readVersion(),
    clock: systemClock,
    signal
  })
  return report
}

interface Upload {
  /** What the push asks for instead of the policy of the project. */
  wishes: Wishes
  /** The saved plan that the deployment is held to. */
  planId: string | undefined
  client: Client
  projectId: string
  config: EffectiveConfig
  confirm: ConfirmRequest
  /** When it begins; undefined: at once. */
  startAt: string | undefined
  /** What the push sets instead of the policy of rollouts. */
  rollout: Partial<RolloutPolicy> | undefined
  signing: Signing
  given: GivenOptions
  /** Provenance of the files, collected while they are packed. Never rejects. */
  origin: Promise<Provenance | null>
  /** Facts about the deployment, filled in as they become known. */
  known: Known
  /** Maximum time to wait for a lock, a window or other deployments; null does not wait. */
  waitMs: number | null
  index: PushIndex
  incremental: IncrementalMode
  signal: AbortSignal
}

/** An upload that began a deployment. */
interface Pushed {
  run: Run
  permit: UploadPermit | null
  sending: Sending
}

/** An unsigned push may not know its tree. */
const noTree = { treeSha256: '', entries: [] }

/** Packs and uploads. Deletes the archive before it returns or throws. */
async function packAndUpload(request: Upload, context: Context): Promise<Pushed> {
  const { client, projectId, origin, known, waitMs, given, signal } = request
  const { note } = context.output
  const base = request.index.treeSha256 ?? undefined
  const ask = <T>(question: () => Promise<T>): Promise<T> => askAgain(question, signal, note)
  const check = () => ask(() => checkBeforePacking({ ...request, override: request.wishes.override, base }))
  // Meanwhile the server answers. After a longer wait, the files may be others.
  const walk = new AbortController()
  signal.addEventListener('abort', () => walk.abort(signal.reason), { once: true })
  const finding = waitMs === null ? findFiles(context, request.config, walk.signal) : null
  finding?.catch(() => {})
  const limits = await (waitMs === null ? check() : waitUntilFree({ check, limitMs: waitMs, signal, note })).catch(
    async (error: unknown) => {
      walk.abort(error)
      known.provenance = await origin
      throw error
    }
  )
  const tokenEnd = tokenEndLine(limits, Date.now())
  if (tokenEnd !== null) note(tokenEnd)
  requireConfirmFeature(request.confirm, limits)
  requireStartFeature(request.startAt, limits)
  requirePlacement(request.rollout, limits)
  const { signers, sbom } = request.signing
  checkSigning({ isSigned: signers.length > 0, hasSbom: sbom !== null }, limits)
  const { prune, force } = request.wishes
  const isPlanned = request.planId === undefined && (prune !== undefined || force)
  const planId = isPlanned ? await (await plans()).planForWishes(request, context) : request.planId
  const listed = newestBefore(client, limits, { projectId, signal })
  const chosen = await chooseSending({ ...request, permit: limits, finding, mode: request.incremental, ask }, context)
  const what = request.config.outputDir.value
  const isSigned = signers.length > 0
  const read =
    isSigned && chosen.tree === null
      ? await readFound(context, chosen.found, { index: request.index, what, signal })
      : null
  const sending = chosen.tree === null && read !== null ? { ...chosen, tree: read } : chosen

  let attached: Attached | undefined
  const onSent = (): void => {
    // A failure is that of the import that waits for it.
    void Promise.all([watching(), logging()]).catch(() => {})
  }
  async function send({ found, changes, ...rest }: Sending): Promise<Run> {
    const { paths, patches, base, treeSha256, delta } = changes ?? {}
    const packing = {
      limits: limits ?? undefined,
      found,
      paths,
      patches,
      note: sendingNote({ found, changes, ...rest }),
      signal
    }
    const archive = await packProject(context, request.config, packing)
    try {
      known.provenance = await origin
      known.message ??= known.provenance?.subject ?? null
      const rollout = request.rollout === undefined ? undefined : JSON.stringify(request.rollout)
      const fields = {
        planId,
        rollout,
        base,
        treeSha256,
        patches: patches?.name,
        override: request.wishes.override,
        startAt: request.startAt,
        ...formFields(request.config, known, request.confirm)
      }
      const newest = await listed
      const { message, provenance } = known
      const signable = { projectId, tree: sending.tree ?? noTree, fields, message, provenance }
      attached ??= await attach(request.signing, signable, context)
      return await uploadArchive(
        { client, projectId, archive, fields, tree: delta, attached, newest, permit: limits, given, signal, onSent },
        context
      )
    } finally {
      await archive.discard()
    }
  }

  const run = await send(sending).catch((error: unknown) => {
    if (sending.changes === null || request.incremental === 'require' || !isRefusedChange(error)) throw error
    note(`${error.message}. Sending all files`)
    return send({ ...sending, changes: null })
  })
  known.deployId = run.deployId
  known.url = pageOf(client, run.deployId, run.page)
  return { run, permit: limits, sending }
}

/**
 * Writes the index for the next push, while the server deploys. Files that were not read before are read now. Without an
 * index, nothing is lost but time.
 */
async function keepIndex(
  { client: { address }, projectId, index, signal }: Upload,
  { found, tree }: Sending,
  context: Context
): Promise<void> {
  try {
    const { sources, walkedMs } = found
    const read = tree ?? { ...(await treeOf(sources, { known: index.known, signal })), walkedMs }
    if (!index.isOf(read)) await writeIndex(indexPath(context, { projectId, address }), read)
  } catch {
    // A file changed meanwhile, or the user interrupts.
  }
}
