import { oneLine } from '../../base/one-line.js'
import { Refusal } from '../../base/refusal.js'
import type { Deployment } from '../../model/deployment.js'
import { mayHaveArrived, type Api } from '../api.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { followLine, type GivenOptions } from '../hints.js'
import { withInterrupts } from '../interrupts.js'
import { confirm, Interrupted, mustAsk } from '../prompt.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../session.js'
import { adminDetails, checkMessage, sharedOptions } from '../common-options.js'
import { messageWords, originWords } from '../origin-words.js'
import { nothingKnown } from '../run-result.js'
import { relativeTime } from '../units.js'
import { reportRun, watchRun } from '../watch.js'

/** How far back a deployment to go back to is looked for: the most the server lists at once. */
const searchedDeployments = 500

export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; else the one of svc.config.json' }
  },
  options: {
    to: { type: 'text', value: 'deployId', complete: 'deployments', help: 'the deployment whose archive is deployed again' },
    message: sharedOptions.message,
    yes: { ...sharedOptions.yes, help: 'do not ask; required where there is no terminal' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the result as JSON on standard output, the lines on standard error' }
  },
  details:
    'Without --to: if the last deployment succeeded, the success before it; if it failed, the latest success; of those\n' +
    `that have their archive. It prints which one and why. --to names any other.\n\n${adminDetails}`,
  examples: [
    ['rollback', 'go back to what was there before the last deployment'],
    ['rollback --to dep_abcdefghijklmnop --yes', 'go back to one deployment, from a script']
  ],
  async run({ options, operands }, context) {
    const { env, server, token, to, message, json } = options
    checkMessage(message)
    const { config } = await loadConfiguration(context, {
      flags: { server, token, project: operands.projectId },
      env,
      project: operands.projectId === undefined && to === undefined ? 'needed' : 'optional'
    })
    if (!options.yes) mustAsk(context.host, 'A rollback must be confirmed', 'give --yes')
    const api = await openAdminApi(context, config)
    const { source, why } =
      to === undefined ? await choose(api, projectIdOf(context, config)) : await named(api, to, config.projectId?.value)
    if (why !== null) context.output.note(`Chosen: ${source.id}, ${why}.`)
    if (!options.yes && !(await confirm(context.host, `Roll back ${describe(source)}`))) {
      context.output.note('Nothing was done.')
      return exitCodes.failed
    }
    const given = { env, server, project: operands.projectId, token }
    return rollBack(api, source, { message, json, given }, context)
  }
})

interface Choice {
  source: Deployment
  /** Why it was chosen; null: the user named it. */
  why: string | null
}

/** The success before the last deployment if that succeeded, else the latest success: of those that have an archive. */
async function choose(api: Api, projectId: string): Promise<Choice> {
  const [last] = await api.deployments({ projectId, limit: 1 })
  const successes = await api.deployments({ projectId, status: 'success', limit: searchedDeployments })
  const kept = successes.filter(deployment => deployment.hasArtifact)
  const source = kept.find(deployment => deployment.id !== last?.id) ?? kept[0]
  if (source !== undefined) return { source, why: reason(source, last) }
  const why = last === undefined ? 'nothing has been deployed yet' : 'no successful deployment has its archive any more'
  throw new Refusal('conflict', 'nothing_to_roll_back_to', `The project ${projectId} cannot be rolled back: ${why}`)
}

function reason(source: Deployment, last: Deployment | undefined): string {
  if (last === undefined || source.id === last.id) return 'the last deployment: no success before it has its archive'
  if (last.status === 'success') return `the success before the last deployment (${last.id} succeeded)`
  return `the latest success (${last.id}, the last deployment, ${last.status === 'failed' ? 'failed' : 'has not finished'})`
}

async function named(api: Api, deployId: string, projectId: string | undefined): Promise<Choice> {
  const source = await api.deployment(deployId)
  if (projectId === undefined || source.projectId === projectId) return { source, why: null }
  throw new Refusal(
    'conflict',
    'other_project',
    `--to cannot be "${deployId}": it is a deployment of the project ${source.projectId}`
  )
}

function describe(source: Deployment): string {
  const words = messageWords(source)
  const origin = originWords(source.provenance)
  const details = [relativeTime(source.startTime, Date.now()), words && `"${words}"`, origin].filter(Boolean)
  return oneLine(`${source.projectName} to ${source.id} (${details.join(', ')})`)
}

async function rollBack(
  api: Api,
  source: Deployment,
  { message, json, given }: { message: string | undefined; json: boolean; given: GivenOptions },
  context: Context
): Promise<number> {
  const { output } = context
  output.note(`Rolling back ${describe(source)}`)
  const watched = await withInterrupts(context.host, async signal => {
    const run = await api.rollback(source.id, { message, signal }).catch((error: unknown) => {
      if (error instanceof Interrupted || mayHaveArrived(error)) output.note(`It is not known whether the rollback began: no answer came. "${followLine(null, given)}" shows it if it did`)
      throw error
    })
    return watchRun(run, context, {
      api,
      projectId: source.projectId,
      given,
      print: json ? output.note : output.print,
      signal
    })
  })
  const { projectId, provenance } = source
  const known = { ...nothingKnown(), projectId, provenance: provenance ?? null, message: message ?? null }
  return await reportRun(watched, context, { api, what: `rolled back to ${source.id}`, json, given, known })
}
