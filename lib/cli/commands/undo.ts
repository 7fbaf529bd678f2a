import { Refusal } from '../../base/errors.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import type { Api } from '../client/api.js'
import { type AdminOptions, openProject, openProjectAsAdmin, projectIdOf } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family } from '../command.js'
import {
  adminDetails,
  checkMessage,
  deploymentOptions,
  projectDetails,
  projectOperand,
  sharedOptions
} from '../common-options.js'
import { exactOptions, rollbackLines, runAndReport, showRollback } from '../exact-run.js'
import { confirmation, withInterrupts } from '../terminal/prompt.js'

const heldOperands = {
  deployId: { complete: 'deployments', help: 'id of the deployment; default: the one of the project that waits' }
} as const

/** The commands that settle a deployment, or restore the files before it. */
export const commands = {
  undo: defineCommand({
    operands: { projectId: projectOperand },
    options: {
      ...exactOptions
    },
    details:
      'Restores the files of the target as they were before the last deployment: what it added is removed, what it\n' +
      'replaced or removed comes back, with contents, permissions and times. Files that were edited since stay, unless\n' +
      `--force is given. An undo is a deployment, so it can be undone, too.\n\n${adminDetails('operator')}`,
    examples: [
      ['undo --dry-run', 'show what an undo would do'],
      ['undo', 'undo the last deployment'],
      ['undo shop --yes', 'undo from a script']
    ],
    async run({ options, operands }, context) {
      const { env, server, token, message, json, force } = options
      checkMessage(message)
      const project = operands.projectId
      const isSure = confirmation(context, { yes: options.yes || options['dry-run'], what: 'An undo', done: 'undone' })
      const { api, config } = await openProjectAsAdmin(context, { env, server, token, project })
      const projectId = projectIdOf(context, config)
      const ask = (signal: AbortSignal) => api.planUndo(projectId, { force, signal })
      if (options['dry-run']) return showRollback(ask, { json, force }, context)
      const plan = await withInterrupts(context.host, ask)
      if (plan.problem !== null) throw new Refusal('conflict', plan.problem.code, plan.problem.message)
      const lines = rollbackLines(plan, { paint: context.output.paint, force })
      for (const line of lines.slice(0, -1)) context.output.note(line)
      if (!(await isSure('Undo the last deployment'))) return exitCodes.failed
      return runAndReport(
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
  }),

  confirm: defineCommand({
    operands: heldOperands,
    options: {
      ...deploymentOptions,
      json: sharedOptions.json
    },
    details: `Settles a deployment that waits to be confirmed. Without a confirmation the earlier files are put back.\n\n${projectDetails('deployer')}`,
    examples: [
      ['confirm', 'confirm the deployment of the configured project'],
      ['confirm dep_abcdefghijklmnop', 'confirm one deployment']
    ],
    async run({ options, operands }, context) {
      const { api, deployId } = await openHeld(context, options, operands.deployId)
      const answer = await api.confirm(deployId)
      context.output.result(options.json, answer, `Confirmed ${deployId}`)
    }
  }),

  revert: defineCommand({
    operands: heldOperands,
    options: {
      ...deploymentOptions,
      json: sharedOptions.json
    },
    details:
      'Puts the earlier files back, while the checks of the deployment run or while it waits to be confirmed. For a\n' +
      `deployment that is settled, use "svc rollback".\n\n${projectDetails('deployer')}`,
    examples: [
      ['revert', 'put back the files before the deployment of the configured project'],
      ['revert dep_abcdefghijklmnop', 'put back the files before one deployment']
    ],
    async run({ options, operands }, context) {
      const { api, deployId } = await openHeld(context, options, operands.deployId)
      const answer = await api.revert(deployId)
      context.output.result(
        options.json,
        answer,
        () => `${answer.success ? 'Reverted' : 'Cannot revert'} ${deployId}: ${answer.deployment.errorMessage ?? ''}`
      )
      return answer.success ? exitCodes.success : exitCodes.failed
    }
  })
} satisfies Family

/** Opens the API for a deployment: the named one, or the one of the project that waits. */
async function openHeld(
  context: Context,
  options: AdminOptions & { project: string | undefined },
  deployId: string | undefined
): Promise<{ api: Api; deployId: string }> {
  const { api, config } = await openProject(context, options, deployId === undefined)
  return { api, deployId: deployId ?? (await heldDeploymentId(api, { context, config })) }
}

/** Returns the id of the project's deployment whose earlier files can still be put back. Refuses if there is none. */
export async function heldDeploymentId(
  api: Pick<Api, 'deployments'>,
  { context, config }: { context: Context; config: EffectiveConfig }
): Promise<string> {
  const projectId = projectIdOf(context, config)
  const running = await api.deployments({ projectId, status: 'running', output: 'none', limit: 1 })
  const held = running.find(({ heldFor }) => heldFor !== null && heldFor !== undefined)
  if (held !== undefined) return held.id
  throw new Refusal('conflict', 'not_waiting', `No deployment of ${projectId} waits for its checks or a confirmation`)
}
