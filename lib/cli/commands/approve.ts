import type { Client } from '../client/client.js'
import { listDeployments, readDeployment, compareLimitMs } from '../client/runs.js'
import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { actorText } from '../../base/shared/api.js'
import type { Deployment } from '../../model/deployment.js'
import { openProject, projectIdOf, type ProjectWish } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, usage } from '../command.js'
import { deploymentOptions, projectDetails, sharedOptions, waitingOperand } from '../common-options.js'
import { rollbackLines } from '../exact-run.js'
import { messageWords, originWords } from '../terminal/deployments.js'
import { confirmation, withInterrupts } from '../terminal/prompt.js'

const operands = { deployId: waitingOperand } as const

const commonOptions = {
  comment: option('text', 'a comment, which stays in the record and the audit log'),
  yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
  ...deploymentOptions,
  json: sharedOptions.json
} as const

/** The commands that decide about a deployment that waits for an approval. */
export const commands = {
  approve: defineCommand({
    fields: { treeSha256: '--tree' },
    operands,
    options: {
      tree: option('sha256', 'the tree that is approved; the command fails if it is another one'),
      ...commonOptions
    },
    details:
      'Shows what the deployment would change, and asks. It begins when as many have approved it as the policy\n' +
      '"approval" of the project asks for. One approves its files: the server refuses another tree than the one shown.\n\n' +
      projectDetails('deployer'),
    examples: [
      ['approve', 'look at the deployment of the configured project that waits, and approve it'],
      ['approve dep_abcdefghijklmnop --yes --comment "tested"', 'approve one deployment from a script']
    ],
    async run({ options, operands: { deployId } }, context) {
      const { tree, comment, yes, json } = options
      const isSure = confirmation(context, { yes, what: 'An approval', done: 'approved' })
      const { client, row } = await openWaiting(context, options, deployId)
      if (tree !== undefined && !/^[0-9a-f]{64}$/i.test(tree))
        throw usage('--tree', `--tree cannot be "${tree}": it must be 64 hexadecimal digits`)
      const treeSha256 = tree?.toLowerCase() ?? row.treeSha256
      if (treeSha256 === null) throw withoutTree(row)
      if (!json) await show(client, row, context)
      if (!(await isSure(`Approve ${row.id}`))) return exitCodes.failed
      const answer = await client.call('POST /api/deployments/:id/approve', {
        id: row.id,
        body: { treeSha256, comment: comment ?? null }
      })
      const { status, heldFor, approvals } = answer.deployment
      const next =
        status === 'queued' && heldFor === 'approval' ? `, it waits for more: ${approvals.length} so far` : ''
      context.output.result(json, answer, `Approved ${row.id}${next}`)
      return exitCodes.success
    }
  }),

  reject: defineCommand({
    operands,
    options: commonOptions,
    details: `Ends a deployment that waits for an approval. Nothing of it was put in place.\n\n${projectDetails('deployer')}`,
    examples: [['reject --comment "not on a Friday"', 'reject the deployment of the configured project that waits']],
    async run({ options, operands: { deployId } }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'A rejection', done: 'rejected' })
      const { client, row } = await openWaiting(context, options, deployId)
      if (!options.json) head(row, context)
      if (!(await isSure(`Reject ${row.id}`))) return exitCodes.failed
      const answer = await client.call('POST /api/deployments/:id/reject', {
        id: row.id,
        body: { comment: options.comment ?? null }
      })
      context.output.result(options.json, answer, `Rejected ${row.id}`)
      return exitCodes.success
    }
  })
} satisfies Family

/** Opens the API, and reads the deployment: the named one, or the one of the project that waits. */
async function openWaiting(
  context: Context,
  options: ProjectWish,
  deployId: string | undefined
): Promise<{ client: Client; row: Deployment }> {
  const { client, config } = await openProject(context, options, deployId === undefined)
  if (deployId !== undefined) return { client, row: await readDeployment(client, deployId, { output: 'end' }) }
  const projectId = projectIdOf(context, config)
  const queued = await listDeployments(client, { projectId, status: 'queued', output: 'none', limit: 100 })
  const found = queued.find(({ heldFor }) => heldFor === 'approval')
  if (found === undefined)
    throw new Refusal('conflict', 'not_waiting', `No deployment of ${projectId} waits for an approval`)
  return { client, row: found }
}

/** One approves files: only those of what waits for an approval are read before it begins. */
function withoutTree({ id, status, heldFor }: Deployment): Refusal {
  const why = heldFor === 'approval' ? 'its files are not known' : 'it does not wait for an approval'
  return new Refusal('conflict', 'not_waiting', `Cannot approve deployment ${id} (${status}): ${why}`)
}

/** Says what a deployment is. */
function head(row: Deployment, { output }: Context): void {
  const { id, projectName, startAt, actor, treeSha256 } = row
  const by = actor === null ? '' : `, started by ${actorText(actor, () => projectName)}`
  const origin = originWords(row.provenance)
  output.note(oneLine(`${id} of ${projectName}${by}: ${messageWords(row) || 'no message'}${origin && ` (${origin})`}`))
  if (startAt !== null) output.note(`It begins at ${startAt}`)
  output.note(`Tree ${treeSha256 ?? 'unknown'}`)
}

/** Says what a deployment is, and what it would change. */
async function show(client: Client, row: Deployment, context: Context): Promise<void> {
  head(row, context)
  const plan = await withInterrupts(context.host, signal =>
    client.call('GET /api/deployments/:id/plan', { id: row.id, answerLimitMs: compareLimitMs, signal })
  ).catch((error: unknown) => {
    if (error instanceof Refusal && error.kind === 'conflict') return null
    throw error
  })
  if (plan === null) return
  for (const line of rollbackLines(plan, { paint: context.output.paint, force: false, verb: 'puts in place' }).slice(
    1,
    -1
  ))
    context.output.note(line)
}
