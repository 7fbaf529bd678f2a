import { systemClock } from '../../base/clock.js'
import { locateHome } from '../../config/home.js'
import type { EffectiveConfig } from '../../config/precedence.js'
import { readVersion } from '../../config/version.js'
import { sendReport } from '../../notify/telemetry.js'
import { isBroken, type Api, type Run } from '../api.js'
import { usage } from '../args.js'
import { defineCommand, type Context } from '../command.js'
import { createCiLog } from '../ci-log.js'
import { withInterrupts } from '../interrupts.js'
import type { PackedArchive } from '../pack.js'
import type { Provenance } from '../../model/provenance.js'
import { splitList } from '../lists.js'
import { packProject } from '../packing.js'
import { followLine, type GivenOptions } from '../hints.js'
import { checkBeforePacking } from '../preflight.js'
import { Interrupted } from '../prompt.js'
import { collectProvenance } from '../provenance.js'
import { failedResult, nothingKnown, pageOf, type Known } from '../run-result.js'
import { loadConfiguration, openDeployApi, projectIdOf } from '../session.js'
import { appendSummary } from '../step-summary.js'
import { checkMessage, packOptions, sharedOptions } from '../common-options.js'
import { formatBytes } from '../../base/size.js'
import { humanDuration } from '../units.js'
import { reportRun, watchRun } from '../watch.js'

export const command = defineCommand({
  operands: {},
  options: {
    env: sharedOptions.env,
    ...packOptions,
    server: sharedOptions.server,
    project: { type: 'text', value: 'id', complete: 'projects', help: 'the project to deploy to' },
    token: { type: 'text', value: 'token', help: 'the deploy token; "-" reads it from standard input' },
    message: {
      ...sharedOptions.message,
      help: 'what this deployment is about; else the subject of the current git commit'
    },
    pre: { type: 'text', value: 'script', help: 'runs on the server before the files are put in place' },
    post: { type: 'text', value: 'script', help: 'runs on the server afterwards, in the target directory' },
    command: { type: 'text', value: 'script', help: 'another name of --post' },
    'post-deploy-async': {
      type: 'text',
      choices: ['true', 'false', '1', '0'],
      bare: 'true',
      value: 'true|false',
      help: 'whether the deployment ends without waiting for the --post script; without a value: true'
    },
    'set-env': { type: 'text', value: 'NAME=value', repeatable: true, help: 'a variable for the scripts' },
    provenance: {
      type: 'switch',
      default: true,
      help: 'do not say where the files come from: git commit, branch, CI run'
    },
    json: { type: 'switch', help: 'print the result as JSON on standard output, the lines on standard error' }
  },
  details:
    'The token is taken from --token, SVC_DEPLOY_TOKEN (also in .env.local), or the global configuration. Scripts that\n' +
    'the server has for the project win over those given here. Ctrl-C while uploading leaves nothing behind; once the\n' +
    'server has answered, the deployment goes on without you. Where clients may not send scripts, only those variables\n' +
    'of --set-env and of the configuration reach the scripts that the project lists (allowedEnv); the output names the\n' +
    'others.',
  examples: [
    ['push', 'what svc.config.json says'],
    ['push --env production -m "New prices"', 'one of several environments, with a message'],
    [
      'push --out dist --post "systemctl --user restart shop" --set-env NODE_ENV=production',
      'other files, a script with a variable'
    ]
  ],
  async run({ options }, context) {
    const { json, message } = options
    const known = { ...nothingKnown(), message: message ?? null }
    return await reportingFailure(context, { known, json }, async () => {
      const postDeployAsync = options['post-deploy-async']
      checkMessage(message)
      const { config } = await loadConfiguration(context, {
        flags: {
          token: options.token,
          server: options.server,
          project: options.project,
          out: options.out,
          ignore: options.ignore.flatMap(splitList),
          noIgnoreBuiltin: !options['ignore-builtin'],
          pre: options.pre,
          post: options.post,
          command: options.command,
          ...(postDeployAsync !== undefined && {
            postDeployAsync: postDeployAsync === 'true' || postDeployAsync === '1'
          }),
          setEnv: variables(options['set-env'])
        },
        env: options.env,
        project: 'needed'
      })
      const projectId = (known.projectId = projectIdOf(context, config))
      const api = await openDeployApi(context, config)
      const origin = options.provenance ? collectProvenance(context.cwd, context.env) : Promise.resolve(null)
      const print = json ? context.output.note : context.output.print
      const log = createCiLog(context.env, { print, isRaw: !json && context.host.stdout.isTTY !== true })
      const given = { env: options.env, server: options.server, project: options.project, token: options.token }
      const report = reportPush(context)
      const watched = await withInterrupts(context.host, async signal => {
        const run = await packAndUpload({ api, projectId, config, given, origin, known, signal }, context)
        log.open('Output of the deployment')
        return await watchRun(run, context, { api, projectId, given, print: log.line, signal }).finally(log.close)
      }).finally(() => report.abort())
      return () => reportRun(watched, context, { api, what: `deployed to ${projectId}`, json, given, known, harmless: log.harmless })
    })
  }
})

/**
 * Runs `push`, and what it returns. A failure of `push` itself is also a result: as JSON, and in the summary of a CI job,
 * with what is known. Throws it again.
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

/** Usage statistics (§6.6), beside the push; aborted when that is over. */
function reportPush({ env, cwd }: Context): AbortController {
  const report = new AbortController()
  const home = locateHome(env, cwd)
  const { signal } = report
  void sendReport({ event: 'svc.push.start', home, environment: env, version: readVersion(), clock: systemClock, signal })
  return report
}

function variables(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map(pair => {
      const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)=([^]*)$/.exec(pair) ?? []
      if (name === undefined || value === undefined) {
        throw usage('--set-env', `--set-env cannot be "${pair}": it is NAME=value, the name of letters, digits and "_"`)
      }
      return [name, value]
    })
  )
}

/** The form fields of §4.6, and `message`. What is not configured is not sent: the server's own setting holds. */
function formFields(config: EffectiveConfig, { message, provenance }: Known): Record<string, string | undefined> {
  const { preDeploy, postDeploy, postDeployAsync, env } = config
  const values = Object.fromEntries(Object.entries(env).map(([name, { value }]) => [name, value]))
  return {
    preDeploy: preDeploy?.value,
    postDeploy: postDeploy?.value,
    postDeployAsync: postDeployAsync.source === 'default' ? undefined : String(postDeployAsync.value),
    env: Object.keys(values).length === 0 ? undefined : JSON.stringify(values),
    message: message || undefined,
    provenance: provenance === null ? undefined : JSON.stringify(provenance)
  }
}

interface Upload {
  api: Api
  projectId: string
  config: EffectiveConfig
  given: GivenOptions
  /** Where the files come from: asked for while they are packed. Never rejects. */
  origin: Promise<Provenance | null>
  /** What becomes known on the way. */
  known: Known
  signal: AbortSignal
}

/** The archive is gone again before the deployment is watched, however it went. */
async function packAndUpload(request: Upload, context: Context): Promise<Run> {
  const { api, origin, known, signal } = request
  const limits = await checkBeforePacking(request).catch(async (error: unknown) => {
    known.provenance = await origin
    throw error
  })
  const archive = await packProject(context, request.config, { limits: limits ?? undefined, signal })
  try {
    known.provenance = await origin
    known.message ??= known.provenance?.subject ?? null
    const run = await upload(archive, request, context)
    known.deployId = run.deployId
    known.url = pageOf(api, run.deployId, run.page)
    return run
  } finally {
    await archive.discard()
  }
}

async function upload(
  archive: PackedArchive,
  { api, projectId, config, given, known, signal }: Upload,
  { output }: Context
): Promise<Run> {
  const startedAtMs = Date.now()
  const bar = output.progress(`Uploading ${formatBytes(archive.bytes)} to ${api.address}`)
  let sentBytes = 0
  const onProgress = (bytes: number) => {
    sentBytes = bytes
    bar.update(bytes, archive.bytes)
  }
  try {
    const fields = formFields(config, known)
    const run = await api.upload({ projectId, archive, fields, onProgress, signal })
    bar.end(`Uploaded ${formatBytes(archive.bytes)} in ${humanDuration(Date.now() - startedAtMs)}`)
    return run
  } catch (error) {
    bar.clear()
    const note = noteOf(error, { sentBytes, bytes: archive.bytes, given })
    if (note !== null) output.note(note)
    throw error
  }
}

/**
 * What is known of the deployment when no answer came. Only the answer proves that it began. That it did not is proved
 * only while the end of the upload is still here: what the network has taken may, or may not, arrive.
 */
function noteOf(error: unknown, { sentBytes, bytes, given }: { sentBytes: number; bytes: number; given: GivenOptions }): string | null {
  const isInterrupted = error instanceof Interrupted
  if (!isInterrupted && !isBroken(error)) return null
  if (sentBytes >= bytes) {
    return `${isInterrupted ? 'Interrupted: it' : 'It'} is not known whether a deployment began: the server did not confirm the upload. ` +
      `"${followLine(null, given)}" lists it if one did. To push again is safe: the same files are deployed once more`
  }
  if (isInterrupted) return 'Interrupted: nothing was deployed'
  return sentBytes === 0 ? null : `Nothing was deployed: ${formatBytes(sentBytes)} of ${formatBytes(bytes)} had left`
}
