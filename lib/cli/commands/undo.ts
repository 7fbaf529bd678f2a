import type { Client } from '../client/client.js'
import { listDeployments } from '../client/deployments.js'
import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import type { Deployment } from '../../model/deployment.js'
import type { EffectiveConfig } from '../../base/config/precedence.js'
import { openProject, projectIdOf, type ProjectWish } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, toggle } from '../command.js'
import {
  adminDetails,
  deploymentOptions,
  projectDetails,
  projectOperand,
  sharedOptions,
  waitingOperand
} from '../common-options.js'
import { exactOptions, undoLast } from '../exact-run.js'

const heldOperands = { deployId: waitingOperand } as const

/** The commands that settle a deployment, or restore the files before it. */
export const commands = {
  undo: defineCommand({
    operands: { projectId: projectOperand },
    options: { ...exactOptions },
    details:
      'Restores the files of the target as they were before the last deployment: what it added is removed, what it\n' +
      'replaced or removed comes back, with contents, permissions and times. Files that were edited since stay, unless\n' +
      `--force is given. An undo is a deployment, so it can be undone, too.\n\n${adminDetails('operator')}`,
    examples: [
      ['undo --dry-run', 'show what an undo would do'],
      ['undo', 'undo the last deployment'],
      ['undo shop --yes', 'undo from a script']
    ],
    run: ({ options, operands: { projectId } }, context) => undoLast(projectId, options, context)
  }),

  confirm: defineCommand({
    operands: heldOperands,
    options: {
      no: toggle('put the earlier files back, also while the checks run'),
      ...deploymentOptions,
      json: sharedOptions.json
    },
    details:
      'Settles a deployment that waits to be confirmed. Without a confirmation the earlier files are put back.\n\n' +
      '--no puts them back at once, also while the checks of the deployment run. For a deployment that is settled, use\n' +
      `"svc rollback".\n\n${projectDetails('deployer')}`,
    examples: [
      ['confirm', 'confirm the deployment of the configured project'],
      ['confirm dep_abcdefghijklmnop', 'confirm one deployment'],
      ['confirm --no', 'put back the files before it']
    ],
    async run({ options, operands }, context) {
      if (options.no) return revert(operands.deployId, options, context)
      const { client, deployId } = await openHeld(context, options, operands.deployId)
      const answer = await client.call('POST /api/deployments/:id/confirm', { id: deployId })
      context.output.result(options.json, answer, `Confirmed ${deployId}`)
      return exitCodes.success
    }
  }),

  revert: defineCommand({
    operands: heldOperands,
    options: { ...deploymentOptions, json: sharedOptions.json },
    details:
      'Puts the earlier files back, while the checks of the deployment run or while it waits to be confirmed. For a\n' +
      `deployment that is settled, use "svc rollback".\n\n${projectDetails('deployer')}`,
    examples: [
      ['revert', 'put back the files before the deployment of the configured project'],
      ['revert dep_abcdefghijklmnop', 'put back the files before one deployment']
    ],
    run: ({ options, operands: { deployId } }, context) => revert(deployId, options, context)
  })
} satisfies Family

/** Puts back the files before a deployment that is not settled. Returns the exit code. */
async function revert(
  named: string | undefined,
  options: ProjectWish & { json: boolean },
  context: Context
): Promise<number> {
  const { client, deployId } = await openHeld(context, options, named)
  const asked = client.call('POST /api/deployments/:id/revert', { id: deployId })
  const answer = (await asked) as { success: boolean; deployment: Deployment }
  context.output.result(
    options.json,
    answer,
    () => `${answer.success ? 'Reverted' : 'Cannot revert'} ${deployId}: ${answer.deployment.errorMessage ?? ''}`
  )
  return answer.success ? exitCodes.success : exitCodes.failed
}

/** Opens the API for a deployment: the named one, or the one of the project that waits. */
async function openHeld(
  context: Context,
  options: ProjectWish,
  deployId: string | undefined
): Promise<{ client: Client; deployId: string }> {
  const { client, config } = await openProject(context, options, deployId === undefined)
  return { client, deployId: deployId ?? (await heldDeploymentId(client, { context, config })) }
}

/** Returns the id of the project's deployment whose earlier files can still be put back. Refuses if there is none. */
export async function heldDeploymentId(
  client: Pick<Client, 'call'>,
  { context, config }: { context: Context; config: EffectiveConfig }
): Promise<string> {
  const projectId = projectIdOf(context, config)
  const running = await listDeployments(client, { projectId, status: 'running', output: 'none', limit: 1 })
  const held = running.find(({ heldFor }) => heldFor !== null && heldFor !== undefined)
  if (held !== undefined) return held.id
  const [last] = await listDeployments(client, { projectId, output: 'none', limit: 1 })
  const name = last === undefined ? projectId : oneLine(last.projectName)
  throw new Refusal('conflict', 'not_waiting', `No deployment of ${name} waits for its checks or a confirmation`)
}
