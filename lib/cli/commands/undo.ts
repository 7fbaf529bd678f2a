import { Refusal } from '../../base/errors.js'
import { loadConfiguration, openAdminApi, projectIdOf } from '../client/session.js'
import { defineCommand, exitCodes } from '../command.js'
import { adminDetails, checkMessage, sharedOptions } from '../common-options.js'
import { exactOptions, rollbackLines, runRollback, showRollback } from '../exact-run.js'
import { confirm, mustAsk, withInterrupts } from '../terminal/prompt.js'

/** The command `svc undo`. */
export const command = defineCommand({
  operands: {
    projectId: { complete: 'projects', help: 'the project; default: the one in svc.config.json' }
  },
  options: {
    ...exactOptions,
    message: sharedOptions.message,
    yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
    env: sharedOptions.env,
    server: sharedOptions.server,
    token: sharedOptions.adminToken,
    json: { type: 'switch', help: 'print the result as JSON; the deployment output goes to standard error' }
  },
  details:
    'Restores the files of the target as they were before the last deployment: what it added is removed, what it\n' +
    'replaced or removed comes back, with contents, permissions and times. Files that were edited since stay, unless\n' +
    `--force is given. An undo is a deployment, so it can be undone, too.\n\n${adminDetails}`,
  examples: [
    ['undo --dry-run', 'show what an undo would do'],
    ['undo', 'undo the last deployment'],
    ['undo proj_abcdefghijklmnop --yes', 'undo from a script']
  ],
  async run({ options, operands }, context) {
    const { env, server, token, message, json, force } = options
    checkMessage(message)
    const project = operands.projectId
    const { config } = await loadConfiguration(context, { flags: { server, token, project }, env, project: 'needed' })
    if (!options.yes && !options['dry-run']) mustAsk(context.host, 'An undo needs a confirmation', 'use --yes')
    const api = await openAdminApi(context, config)
    const projectId = projectIdOf(context, config)
    const ask = (signal: AbortSignal) => api.planUndo(projectId, { force, signal })
    if (options['dry-run']) return showRollback(ask, { json, force }, context)
    const plan = await withInterrupts(context.host, ask)
    if (plan.problem !== null) throw new Refusal('conflict', plan.problem.code, plan.problem.message)
    const lines = rollbackLines(plan, { paint: context.output.paint, force })
    for (const line of lines.slice(0, -1)) context.output.note(line)
    if (!options.yes && !(await confirm(context.host, 'Undo the last deployment'))) {
      context.output.note('Nothing was undone.')
      return exitCodes.failed
    }
    return runRollback(
      api,
      {
        start: signal => api.undo(projectId, { message, force, signal }),
        noun: 'undo',
        done: plan.to === null ? 'the first deployment is undone' : `the files are as after ${plan.to.deployId}`,
        projectId,
        provenance: null,
        message,
        json,
        given: { env, server, project, token },
        witness: options.witness
      },
      context
    )
  }
})
