/* The part of "svc apply" for the file of a server, which the client package does not have. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { decodeText, oneLine, countOf } from '../../base/text.js'
import { lineOf, type Change } from '../../base/shared/audit.js'
import { isSameName, type ShownProject } from '../../model/project.js'
import { type AdminOptions, openAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family } from '../command.js'
import { adminDetails, adminOptions, serverFileName } from '../common-options.js'
import {
  readServerFile,
  type ServerFile,
  type FileLabel,
  type FileTarget,
  isKeptSecret
} from '../server-file/format.js'
import {
  checkStill,
  idsOf,
  type Plan,
  type Server,
  type Step,
  add,
  idIn,
  ifMatch,
  isOf,
  keyOf,
  named,
  noSecret,
  order,
  type Planning,
  type Wish,
  fileOf,
  readServer,
  type ServerState
} from '../server-file/state.js'
import { confirmation } from '../terminal/prompt.js'
import { beyondDefaults, changes, hiddenValue, type Readers } from '../../model/readers.js'
import { eventKeys, maskedAddress } from '../../model/setting.js'
import { targetReaders } from '../../operate/notify/targets.js'
import { type AuditedLabel, labelReaders } from '../../projects/projects.js'
import { settingChanges, type SettingKey, settingRows } from '../../projects/settings.js'
import { isProjectId } from '../client/named-project.js'
import { planProjects } from '../server-file/projects.js'

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

/* What must change on a server so that it is as its file says. */

/** Compares a file with a server. Refuses (`broken_config`, `conflict`) what cannot be done, before anything changes. */
export function planOf(wish: Wish): Plan {
  const planning: Planning = { ...wish, tasks: [], leftAlone: 0, notCompared: [] }
  planSettings(planning)
  planLabels(planning, 'category')
  planLabels(planning, 'tag')
  planProjects(planning)
  planTargets(planning)
  const { tasks, leftAlone, notCompared } = planning
  return { tasks: tasks.sort((one, other) => one.order - other.order), leftAlone, notCompared }
}

/* Settings */

function planSettings(planning: Planning): void {
  const { file, state, prune, refusal } = planning
  if (file.settings === undefined) return
  const usual = prune ? Object.fromEntries(settingRows.map(row => [row.key, row.default])) : {}
  const body: Record<string, string> = {}
  const fields: Change[] = []
  for (const [key, value] of Object.entries({ ...usual, ...file.settings })) {
    const isSecret = key === 'webhook_url' || settingRows.some(row => row.key === key && row.type === 'secret')
    const now = state.settings[key]
    if (isSecret && isKeptSecret(value)) {
      const isThere = now === undefined || (now !== '' && [hiddenValue, maskedAddress(now)].includes(value))
      if (!isThere) throw refusal(`settings.${key}`, noSecret(`settings.${key}`))
    } else if (isSecret && now === undefined && !planning.secrets) planning.notCompared.push(`settings.${key}`)
    else {
      const changed = settingChanges(key as SettingKey, now ?? '', value)
      if (changed.length > 0) body[key] = value
      fields.push(...changed)
    }
  }
  const run = async ({ call }: Server): Promise<void> =>
    void (await call('PUT /api/settings', { body, headers: ifMatch(state.settingsSeen) }))
  add(planning, { action: 'change', kind: 'settings', name: '', fields, order: order.settings, run })
}

/* Categories and tags */

function planLabels(planning: Planning, kind: 'category' | 'tag'): void {
  const part = kind === 'category' ? 'categories' : 'tags'
  const { file, state, prune } = planning
  for (const fields of file[part] ?? []) planLabel(planning, kind, fields)
  if (!prune || file[part] === undefined) return
  for (const label of state[part]) {
    const { name } = label.fields
    if (file[part].some(each => isSameName(each.name, name))) continue
    const run = async ({ call }: Server): Promise<void> => {
      const now = (await call(kind === 'category' ? 'GET /api/categories' : 'GET /api/tags')).find(isOf(label.id))
      checkStill(`The ${kind} "${name}"`, label.seen, `"${now?.updatedAt}"`)
      await call(kind === 'category' ? 'DELETE /api/categories/:id' : 'DELETE /api/tags/:id', { id: label.id })
    }
    add(planning, { action: 'delete', kind, name, fields: [], order: order.deleted + 0.2, run })
  }
}

function planLabel(planning: Planning, kind: 'category' | 'tag', { name, color, sortOrder }: FileLabel): void {
  const body = { name, ...(color !== null && { color }), ...(sortOrder !== undefined && { sortOrder }) }
  const before = named(kind === 'category' ? planning.state.categories : planning.state.tags, name)
  const fields =
    before === undefined
      ? beyondDefaults<AuditedLabel>({ name, sortOrder: 0 }, { sortOrder: 0, ...body }, labelReaders)
      : changes<AuditedLabel>(
          before.fields as AuditedLabel,
          { ...before.fields, ...body } as AuditedLabel,
          labelReaders
        )
  const run = async ({ call, ids }: Server): Promise<void> => {
    if (before !== undefined) {
      const given = { id: before.id, body, headers: ifMatch(before.seen) }
      await call(kind === 'category' ? 'PUT /api/categories/:id' : 'PUT /api/tags/:id', given)
    } else {
      const made =
        kind === 'category'
          ? (await call('POST /api/categories', { body })).category
          : (await call('POST /api/tags', { body })).tag
      ids.set(keyOf(kind, name), made.id)
    }
  }
  add(planning, { action: before === undefined ? 'create' : 'change', kind, name, fields, order: order.labels, run })
}

/* Notification targets */

type KeptTarget = ServerState['notificationTargets'][number]

function planTargets(planning: Planning): void {
  const { file, state, prune } = planning
  file.notificationTargets?.forEach((wanted, index) => {
    planTarget(planning, wanted, {
      path: `notificationTargets[${index}]`,
      kept: named(state.notificationTargets, wanted.name)
    })
  })
  if (!prune || file.notificationTargets === undefined) return
  for (const { id, seen, fields } of state.notificationTargets) {
    const { name } = fields
    if (file.notificationTargets.some(each => isSameName(each.name, name))) continue
    const run = async ({ call }: Server): Promise<void> => {
      const now = (await call('GET /api/notification-targets')).items.find(isOf(id))
      checkStill(`The notification target "${name}"`, seen, `"${now?.updatedAt}"`)
      await call('DELETE /api/notification-targets/:id', { id })
    }
    add(planning, { action: 'delete', kind: 'notification target', name, fields: [], order: order.deleted, run })
  }
}

function planTarget(
  planning: Planning,
  wanted: FileTarget,
  { path, kept }: { path: string; kept: KeptTarget | undefined }
): void {
  checkTargetProjects(planning, wanted, { path, kept })
  const held = heldFields(planning, wanted, { path, kept })
  const usual = { events: [...eventKeys], projectIds: [], enabled: true, ...(planning.prune && { secret: '' }) }
  const given = { ...(planning.prune || kept === undefined ? usual : {}), ...wanted }
  for (const key of held) delete (given as Partial<FileTarget>)[key]
  const shown = (fields: Partial<FileTarget>): object => {
    const { projectIds = [] } = fields
    return { ...fields, projectIds: projectIds.length === 0 ? ['all'] : projectIds }
  }
  const readers = targetReaders as Readers<object>
  const after = { ...kept?.fields, ...given }
  const fields =
    kept === undefined
      ? beyondDefaults<object>({ name: wanted.name }, shown(after), readers)
      : changes<object>(shown(kept.fields), shown(after), readers)
  const run = async (server: Server): Promise<void> => {
    const body = {
      ...given,
      ...(given.projectIds && { projectIds: given.projectIds.map(each => idIn(server, 'project', each)) })
    }
    if (kept === undefined) await server.call('POST /api/notification-targets', { body })
    else await server.call('PUT /api/notification-targets/:id', { id: kept.id, body, headers: ifMatch(kept.seen) })
  }
  const action = kept === undefined ? 'create' : 'change'
  add(planning, { action, kind: 'notification target', name: wanted.name, fields, order: order.rest, run })
}

function checkTargetProjects(
  { file, state, refusal }: Planning,
  { projectIds = [] }: FileTarget,
  { path, kept }: { path: string; kept: KeptTarget | undefined }
): void {
  const known = [...(file.projects ?? []), ...state.projects.map(({ fields }) => fields)]
  projectIds.forEach((word, index) => {
    if (known.some(({ name }) => isSameName(name, word))) return
    if (isProjectId(word) && (state.projects.some(isOf(word)) || kept?.fields.projectIds?.includes(word))) return
    const place = `${path}.projectIds[${index}]`
    throw refusal(place, `"${place}" is "${word}": there is no such project, neither in the file nor on the server`)
  })
}

/** Returns the fields with secrets that the server keeps, because the file masks them or they cannot be compared. */
function heldFields(
  planning: Planning,
  { url, secret }: FileTarget,
  { path, kept }: { path: string; kept: KeptTarget | undefined }
): Array<'url' | 'secret'> {
  const held: Array<'url' | 'secret'> = []
  const masked = kept?.fields.url
  if (isKeptSecret(url)) {
    if (masked === undefined || ![masked, hiddenValue].includes(url))
      throw planning.refusal(`${path}.url`, noSecret(`${path}.url`))
    held.push('url')
  } else if (masked === maskedAddress(url) && !planning.secrets) {
    planning.notCompared.push(`${path}.url`)
    held.push('url')
  }
  if (secret === hiddenValue) {
    if (!kept?.hasSecret) throw planning.refusal(`${path}.secret`, noSecret(`${path}.secret`))
    held.push('secret')
  } else if (secret && kept?.hasSecret && !planning.secrets) {
    planning.notCompared.push(`${path}.secret`)
    held.push('secret')
  }
  return held
}
