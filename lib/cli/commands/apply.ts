import { open, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { decodeText, oneLine, countOf } from '../../base/text.js'
import { lineOf } from '../../base/shared/audit-changes.js'
import { isSameName, type ShownProject } from '../../model/project.js'
import { createCall } from '../client/call.js'
import { openAdmin } from '../client/session.js'
import { applyBundle } from '../bundle/apply.js'
import { mayBeBundle } from '../bundle/volumes.js'
import { type Context, defineCommand, exitCodes, type Family, usage } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { variables } from '../pack/push-fields.js'
import { readServerFile, type ServerFile } from '../server-file/format.js'
import { planOf } from '../server-file/plan.js'
import { checkStill, idsOf, type Plan, type Server, type Step } from '../server-file/planning.js'
import { fileOf, readServer } from '../server-file/state.js'
import { confirmation } from '../terminal/prompt.js'

const defaultFile = 'svc.server.json'

/** The commands for the file of a server. */
export const commands = {
  apply: defineCommand({
    operands: { file: { help: `file of the server, or a bundle; default: ${defaultFile}` } },
    options: {
      'dry-run': { type: 'switch', help: 'show what would change, and change nothing' },
      prune: {
        type: 'switch',
        help: 'delete or reset what the file does not name, in the parts that it has; of a bundle: as "svc push --prune"'
      },
      secrets: { type: 'switch', help: 'also set secrets that cannot be compared, because the server hides them' },
      project: { ...sharedOptions.project, help: 'of a bundle: id or name of the project to deploy to' },
      'set-env': {
        type: 'text',
        value: 'NAME=value',
        repeatable: true,
        help: 'of a bundle: set a variable for the scripts'
      },
      yes: { ...sharedOptions.yes, help: 'do not ask before the changes; required without a terminal' },
      json: { type: 'switch', help: 'print the changes, or the result of the deployment, as JSON' },
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
      ['apply --dry-run', `show what ${defaultFile} would change`],
      ['apply svc.server.json --yes', 'make the server as the file says, without being asked'],
      ['apply shop.svcb --project shop', 'show what a bundle would change, and deploy it']
    ],
    async run({ options, operands }, context) {
      const { 'dry-run': isTrial, json, prune, secrets, yes } = options
      const { host, output } = context
      const name = operands.file ?? defaultFile
      const path = resolve(context.cwd, name)
      if (await isBundle(path)) {
        const { env, server, token, project } = options
        if (secrets) throw usage('--secrets', '--secrets is for the file of a server: a bundle contains none')
        const given = { env, server, token, project }
        const setEnv = variables(options['set-env'])
        return await applyBundle(path, { given, setEnv, isTrial, prune, yes, json }, context)
      }
      for (const flag of ['project', 'set-env'] as const)
        if (options[flag]?.length) throw usage(`--${flag}`, `--${flag} is for a bundle, and "${name}" is none`)
      const isSure = isTrial ? null : confirmation(context, { yes, what: 'Changing the server' })
      const { file, refusal } = readServerFile(await textOf(context, name), { name, env: host.env })
      const { client } = (await openAdmin(context, options)).api
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
      await carryOut(plan, { call: createCall(client), ids: idsOf(state) })
      if (json) output.json({ ...answer, applied: true })
      else output.print(`Made ${countOf(steps.length, 'change')}`)
      return exitCodes.success
    }
  }),

  'settings export': defineCommand({
    options: adminOptions,
    details:
      'Prints the file that "svc apply" takes: settings, categories, tags, projects with their policies, variables and\n' +
      'log sources, and notification targets. Defaults are left out. Secrets are shown as ***. Deployments, tokens and\n' +
      `the nodes of projects are not part of it.\n\n${adminDetails('admin')}`,
    examples: [[`settings export > ${defaultFile}`, 'write the file of the configured server']],
    async run({ options }, context) {
      const { client } = (await openAdmin(context, options)).api
      const state = await readServer(client, () => true)
      context.output.json(fileOf(state))
    }
  })
} satisfies Family

async function textOf({ cwd }: Context, name: string): Promise<string> {
  return decodeText(await readFile(resolve(cwd, name)), name)
}

/** Whether a file is a bundle, or another zip: the file of a server is text. */
async function isBundle(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const start = Buffer.alloc(16)
    return mayBeBundle(start.subarray(0, (await file.read(start)).bytesRead))
  } finally {
    await file.close()
  }
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
