import { oneLine } from '../../base/one-line.js'
import { Refusal } from '../../base/refusal.js'
import type { Deployment } from '../../model/deployment.js'
import { mayHaveArrived, type Api } from '../client/api.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { followLine, type GivenOptions } from '../hints.js'
import { withInterrupts } from '../interrupts.js'
import { confirm, Interrupted, mustAsk } from '../terminal/prompt.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../client/session.js'
import { adminDetails, checkMessage, sharedOptions } from '../common-options.js'
import { messageWords, originWords } from '../terminal/origin-words.js'
import { nothingKnown } from '../run-result.js'
import { relativeTime } from '../terminal/units.js'
import { reportRun, watchRun } from '../watch.js'

/** Number of deployments to search for one to roll back to: the most that the server lists at once. */
const searchedDeployments = 500

/** The command `svc rollback`. */
export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; default: the one in svc.config.json' }
  },
  options: {
    to: {
      type: 'text',
      value: 'deployId',
      complete: 'deployments',
      help: 'deployment whose archive is deployed again'
    },
    message: sharedOptions.message,
    yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the result as JSON; the deployment output goes to standard error' }
  },
  details:
    'Without --to, svc chooses among the successful deployments whose archive is kept. If the latest deployment\n' +
    'succeeded, it takes the one before it, else the newest. It prints the choice and the reason.\n' +
    `Use --to to choose another deployment.\n\n${adminDetails}`,
  examples: [
    ['rollback', 'undo the latest deployment'],
    ['rollback --to dep_abcdefghijklmnop --yes', 'roll back to a deployment, from a script']
  ],
  async run({ options, operands }, context) {
    const { env, server, token, to, message, json } = options
    checkMessage(message)
    const { config } = await loadConfiguration(context, {
      flags: { server, token, project: operands.projectId },
      env,
      project: operands.projectId === undefined && to === undefined ? 'needed' : 'optional'
    })
    if (!options.yes) mustAsk(context.host, 'A rollback needs a confirmation', 'use --yes')
    const api = await openAdminApi(context, config)
    const { source, why } =
      to === undefined ? await choose(api, projectIdOf(context, config)) : await named(api, to, config.projectId?.value)
    if (why !== null) context.output.note(`Chosen: ${source.id}, ${why}.`)
    if (!options.yes && !(await confirm(context.host, `Roll back ${describe(source)}`))) {
      context.output.note('Nothing was rolled back.')
      return exitCodes.failed
    }
    const given = { env, server, project: operands.projectId, token }
    return rollBack(api, { source, message, json, given }, context)
  }
})

interface Choice {
  source: Deployment
  /** Reason for the choice; null if the user named the deployment. */
  why: string | null
}

/**
 * Chooses among the successful deployments that have an archive: the one before the latest deployment if that
 * succeeded, else the newest one.
 */
async function choose(api: Api, projectId: string): Promise<Choice> {
  const [last] = await api.deployments({ projectId, limit: 1 })
  const successes = await api.deployments({ projectId, status: 'success', limit: searchedDeployments })
  const kept = successes.filter(deployment => deployment.hasArtifact)
  const source = kept.find(deployment => deployment.id !== last?.id) ?? kept[0]
  if (source !== undefined) return { source, why: reason(source, last) }
  const why = last === undefined ? 'nothing has been deployed yet' : 'no archive of a successful deployment is kept'
  throw new Refusal('conflict', 'nothing_to_roll_back_to', `The project ${projectId} cannot be rolled back: ${why}`)
}

function reason(source: Deployment, last: Deployment | undefined): string {
  if (last === undefined || source.id === last.id)
    return 'the latest deployment: no archive of an earlier success is kept'
  if (last.status === 'success') return `the success before the latest deployment (${last.id} succeeded)`
  return `the latest success (the latest deployment, ${last.id}, ${last.status === 'failed' ? 'failed' : 'has not finished'})`
}

async function named(api: Api, deployId: string, projectId: string | undefined): Promise<Choice> {
  const source = await api.deployment(deployId)
  if (projectId === undefined || source.projectId === projectId) return { source, why: null }
  throw new Refusal(
    'conflict',
    'other_project',
    `--to cannot be "${deployId}": it belongs to the project ${source.projectId}`
  )
}

function describe(source: Deployment): string {
  const words = messageWords(source)
  const origin = originWords(source.provenance)
  const details = [relativeTime(source.startTime, Date.now()), words && `"${words}"`, origin].filter(Boolean)
  return oneLine(`${source.projectName} to ${source.id} (${details.join(', ')})`)
}

interface Rollback {
  source: Deployment
  message: string | undefined
  json: boolean
  given: GivenOptions
}

async function rollBack(api: Api, { source, message, json, given }: Rollback, context: Context): Promise<number> {
  const { output } = context
  output.note(`Rolling back ${describe(source)}`)
  const watched = await withInterrupts(context.host, async signal => {
    const run = await api.rollback(source.id, { message, signal }).catch((error: unknown) => {
      if (error instanceof Interrupted || mayHaveArrived(error))
        output.note(
          `The server did not answer, so the rollback may have begun. Run "${followLine(null, given)}" to check`
        )
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
