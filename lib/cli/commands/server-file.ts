/* The part of "svc apply" for the file of a server, which the client package does not have. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { decodeText, oneLine, countOf } from '../../base/text.js'
import { lineOf } from '../../base/shared/audit-changes.js'
import { isSameName, type ShownProject } from '../../model/project.js'
import { type AdminOptions, openAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family } from '../command.js'
import { adminDetails, adminOptions, serverFileName } from '../common-options.js'
import { readServerFile, type ServerFile } from '../server-file/format.js'
import { planOf } from '../server-file/plan.js'
import { checkStill, idsOf, type Plan, type Server, type Step } from '../server-file/planning.js'
import { fileOf, readServer } from '../server-file/state.js'
import { confirmation } from '../terminal/prompt.js'

/** The command that writes the file of a server. */
export const commands = {
  'settings export': defineCommand({
    options: adminOptions,
    details:
      'Prints the file that "svc apply" takes: settings, categories, tags, projects with their policies, variables and\n' +
      'log sources, the nodes that they are placed on, and notification targets. Defaults are left out. Secrets are\n' +
      `shown as ***. Deployments and tokens are not part of it.\n\n${adminDetails('admin')}`,
    examples: [[`settings export > ${serverFileName}`, 'write the file of the configured server']],
    async run({ options }, context) {
      const { client } = await openAdmin(context, options)
      const state = await readServer(client, () => true)
      context.output.json(fileOf(state))
    }
  })
} satisfies Family

/** What to apply, and how. */
interface Applying {
  name: string
  server: AdminOptions
  isTrial: boolean
  prune: boolean
  secrets: boolean
  yes: boolean
  json: boolean
}

/** Makes the server as its file says. Returns the exit code. */
export async function applyServerFile(
  { name, server, isTrial, prune, secrets, yes, json }: Applying,
  context: Context
): Promise<number> {
  const { host, output } = context
  const isSure = isTrial ? null : confirmation(context, { yes, what: 'Changing the server' })
  const { file, refusal } = readServerFile(await textOf(context, name), { name, env: host.env })
  const { client } = await openAdmin(context, server)
  const read = () => readServer(client, wantingVariables(file, prune))
  const state = await read()
  const plan = planOf({ file, refusal, state, prune, secrets })
  const tell = (line: string): void => (json ? output.note(line) : output.print(line))
  show(plan, context, tell)
  const steps = plan.tasks.filter(({ isSecond }) => !isSecond)
  const answer = { changes: steps.map(asJson), leftAlone: plan.leftAlone, notCompared: plan.notCompared }
  if (isSure === null || steps.length === 0) {
    if (json) output.json({ ...answer, applied: false })
    return exitCodes.success
  }
  if (!(await isSure(`Make ${countOf(steps.length, 'change')}?`))) return exitCodes.failed
  checkStill('The server', state, await read())
  await carryOut(plan, { call: client.call, ids: idsOf(state) })
  if (json) output.json({ ...answer, applied: true })
  else output.print(`Made ${countOf(steps.length, 'change')}`)
  return exitCodes.success
}

async function textOf({ cwd }: Context, name: string): Promise<string> {
  return decodeText(await readFile(resolve(cwd, name)), name)
}

/** Returns for which projects the variables are read: reading them is a request for each. */
function wantingVariables({ projects = [] }: ServerFile, prune: boolean): (project: ShownProject) => boolean {
  const wanted = projects.filter(({ variables }) => prune || variables !== undefined)
  return ({ name, deployPath }) => wanted.some(each => isSameName(each.name, name) || each.deployPath === deployPath)
}

/** Makes the changes one by one. A refusal says how many were made. */
async function carryOut({ tasks }: Plan, server: Server): Promise<void> {
  for (const [index, task] of tasks.entries()) {
    try {
      await task.run(server)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const made = index === 0 ? 'Nothing was changed' : `${index} of ${countOf(tasks.length, 'change')} were made`
      const sentence = `Cannot ${titleOf(task)}: ${error.message}. ${made}. Run the command again to see what is left`
      throw new Refusal(error.kind, error.code, sentence, { cause: error })
    }
  }
}

function titleOf({ action, kind, name }: Step): string {
  return oneLine(name === '' ? `${action} ${kind}` : `${action} ${kind} "${name}"`)
}

function asJson({ action, kind, name, fields }: Step): object {
  return { action, kind, name, fields }
}

function show(
  { tasks, leftAlone, notCompared }: Plan,
  { output: { paint, note } }: Context,
  tell: (line: string) => void
): void {
  const colors = { create: paint.green, change: paint.yellow, delete: paint.red }
  for (const task of tasks) {
    if (task.isSecond) continue
    tell(colors[task.action](titleOf(task)))
    for (const field of task.fields) tell(`  ${lineOf(field)}`)
  }
  if (tasks.length === 0) tell('Nothing to change')
  if (leftAlone > 0)
    tell(`Left alone: ${countOf(leftAlone, 'record')} that ${leftAlone === 1 ? 'is' : 'are'} as the file says`)
  if (notCompared.length > 0)
    note(`Not compared, because the server hides them: ${notCompared.join(', ')}. --secrets sets them again`)
}
